package status

import (
	"errors"
	"fmt"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/record"
)

// machineRecord is what Windlass has recorded on a Machine; nil fields are not there or cannot be read.
type machineRecord struct {
	progress *inplace.Progress
	summary  *inplace.Summary
	dirty    []dirtyField
	problems []Problem
}

func (r machineRecord) progressUnreadable() bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Annotation == v1alpha1.UpdateProgressAnnotation })
}

// dirtyField is an item of the annotation windlass.dev/dirty-fields.
type dirtyField struct {
	cover.Pointer
	Since time.Time `json:"since"`
}

var errNoPhase = errors.New("it says no phase")

// readRecord reads a Machine's annotations. People and other programs can write annotations, so anything may stand there.
func readRecord(m *clusterv1.Machine) machineRecord {
	r := machineRecord{}
	fail := func(annotation string, err error) {
		r.problems = append(r.problems, Problem{
			Kind: "Machine", Name: m.Name, Annotation: annotation, Message: fmt.Sprintf("it cannot be read: %v", err),
		})
	}
	progress, err := decode[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	if err == nil && progress != nil && progress.Phase == "" {
		err = errNoPhase
	}
	if err != nil {
		fail(v1alpha1.UpdateProgressAnnotation, err)
	} else {
		r.progress = progress
	}
	if r.summary, err = decode[inplace.Summary](m, v1alpha1.LastUpdateAnnotation); err != nil {
		fail(v1alpha1.LastUpdateAnnotation, err)
	}
	dirty, err := decode[[]dirtyField](m, v1alpha1.DirtyFieldsAnnotation)
	if err != nil {
		fail(v1alpha1.DirtyFieldsAnnotation, err)
	} else if dirty != nil {
		r.dirty = *dirty
	}
	return r
}

// ReadUpdate returns what a Machine has recorded of its update in place: the progress of the one under
// way, and the summary of the last one that ended. Both are nil where nothing is recorded, or where it
// cannot be read.
func ReadUpdate(m *clusterv1.Machine) (*inplace.Progress, *inplace.Summary) {
	r := readRecord(m)
	return r.progress, r.summary
}

// decode returns nil for an annotation that is not there.
func decode[T any](m *clusterv1.Machine, annotation string) (*T, error) {
	value, err := record.Read[T](m.Annotations, annotation)
	if err != nil {
		return nil, fmt.Errorf("decoding it: %w", err)
	}
	return value, nil
}

// measureDurations returns how long each updater took, by its name.
func measureDurations(records map[string]machineRecord) map[string]Duration {
	seconds := map[string][]int64{}
	for _, r := range records {
		if r.summary == nil {
			continue
		}
		for _, d := range r.summary.Done {
			// A clock that was set back must not make updates look endless.
			if d.Updater != "" && d.Seconds >= 0 {
				seconds[d.Updater] = append(seconds[d.Updater], d.Seconds)
			}
		}
	}
	durations := make(map[string]Duration, len(seconds))
	for updater, measured := range seconds {
		durations[updater] = Duration{
			Updater: updater, Median: Seconds{time.Duration(median(measured)) * time.Second}, Measured: len(measured),
		}
	}
	return durations
}

// UsualDuration returns how long the last updates of machines took from beginning to end: the median, and of how many. Both are
// 0 where none is recorded.
func UsualDuration(machines []*clusterv1.Machine) (usual time.Duration, measured int) {
	var seconds []int64
	for _, m := range machines {
		s := readRecord(m).summary
		if s == nil || s.Began.IsZero() || s.Ended.Before(s.Began) {
			continue
		}
		seconds = append(seconds, int64(s.Ended.Sub(s.Began)/time.Second))
	}
	return time.Duration(median(seconds)) * time.Second, len(seconds)
}
