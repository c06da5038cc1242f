package record

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/recordjson"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// readable are the limits of a record that is read. Annotations that are not in Limits are bounded by
// what the API server stores.
func readable(key string) untrusted.Limits {
	most := untrusted.Annotation
	if limit := LimitOf(key); limit > 0 {
		most.Bytes = min(most.Bytes, readFactor*limit)
	}
	return most
}

// Encode returns the record that takes the place of the one in an annotation. It keeps what a newer
// release has added to it, as recordjson.Encode does. It returns an error for one that Read
// refuses, and a *TooLongError for one beyond its limit in Limits.
func Encode(annotations map[string]string, key string, value any) (string, error) {
	text, err := recordjson.Encode(value, annotations[key])
	if err == nil {
		err = check(key, text)
	}
	if err == nil {
		err = readable(key).Check([]byte(text))
	}
	if err != nil {
		return "", fmt.Errorf("encoding the annotation %s: %w", key, err)
	}
	return text, nil
}

// Read decodes the record in an annotation; nil where there is none. A record that is larger than
// readFactor times its limit, or nests deeper than any, is as unknown as one that
// is malformed: the error says why.
func Read[T any](annotations map[string]string, key string) (*T, error) {
	text, ok := annotations[key]
	if !ok {
		return nil, nil //nolint:nilnil // No record is no error.
	}
	value := new(T)
	if err := readable(key).Unmarshal([]byte(text), value); err != nil {
		return nil, err //nolint:wrapcheck // The caller names the object.
	}
	return value, nil
}

// ProgressOf returns the record of a Machine's update under way; nil where there is none. It returns
// an error if the record cannot be read: nobody knows then what an updater does.
func ProgressOf(annotations map[string]string) (*Progress, error) {
	return Read[Progress](annotations, v1alpha1.UpdateProgressAnnotation)
}

// SummaryOf returns the record of a Machine's last update that ended; nil where there is none.
func SummaryOf(annotations map[string]string) (*Summary, error) {
	return Read[Summary](annotations, v1alpha1.LastUpdateAnnotation)
}

// DecisionsOf returns the decisions on a MachineSet or Machine, newest first. Those that cannot be
// read count as none: a new decision takes their place.
func DecisionsOf(annotations map[string]string) []Decision {
	list, err := Read[[]Decision](annotations, v1alpha1.UpdateDecisionsAnnotation)
	if err != nil || list == nil {
		return nil
	}
	return slices.DeleteFunc(*list, func(d Decision) bool { return d.ID == "" })
}
