package record

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// UnstoredError reports that the API server has stored another annotation than was written. What the
// annotation records must not be begun: the next reader does not know of it.
type UnstoredError struct{ Key string }

// Error names the annotation, and what to do.
func (e *UnstoredError) Error() string {
	return fmt.Sprintf("the annotation %s is not stored as Windlass wrote it: a webhook changes it, "+
		"and nothing is done without the record. Fix: keep mutating webhooks from changing annotations "+
		"of Windlass", e.Key)
}

// CheckStored returns an *UnstoredError for the first key, in their order, whose value is not as it was
// written; nil means removed. How JSON is spelled does not count, nor what is stored beside.
func CheckStored(stored map[string]string, written map[string]*string) error {
	for _, key := range slices.Sorted(maps.Keys(written)) {
		value, has := stored[key]
		if want := written[key]; has != (want != nil) || has && !isSameJSON(value, *want) {
			return &UnstoredError{Key: key}
		}
	}
	return nil
}

func isSameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var values [2]any
	err := errors.Join(untrusted.Annotation.Unmarshal([]byte(a), &values[0]),
		untrusted.Annotation.Unmarshal([]byte(b), &values[1]))
	return err == nil && reflect.DeepEqual(values[0], values[1])
}
