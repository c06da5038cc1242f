package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
)

// maxDecisions is how many decisions an object keeps: one for each desired state, newest first.
const maxDecisions = 8

// Patch sets annotations, and removes those that are nil.
type Patch map[string]*string

// set sets an annotation to a record. It keeps what a newer release has added to the record in
// annotations.
func (p Patch) set(annotations map[string]string, key string, value any) error {
	text, err := record.Encode(annotations, key, value)
	if err != nil {
		return err //nolint:wrapcheck // It names the annotation.
	}
	p[key] = &text
	return nil
}

// setFitting is set for a list: it drops items until the record is within its limit, or has one item.
func setFitting[T any](
	p Patch, annotations map[string]string, key string, list []T, drop func([]T) []T,
) error {
	for {
		err := p.set(annotations, key, list)
		if _, long := errors.AsType[*record.TooLongError](err); !long || len(list) == 1 {
			return err
		}
		list = drop(list)
	}
}

// removeFrom removes a key where the annotations have it.
func (p Patch) removeFrom(annotations map[string]string, keys ...string) {
	for _, key := range keys {
		if _, ok := annotations[key]; ok {
			p[key] = nil
		}
	}
}

// readAnnotation decodes an annotation into a new T; nil where there is none.
func readAnnotation[T any](object client.Object, key string) (*T, error) {
	value, err := record.Read[T](object.GetAnnotations(), key)
	if err != nil {
		return nil, fmt.Errorf("the annotation %s of %s/%s cannot be read: %w; remove it from the object, and what it was about is begun again", key, object.GetNamespace(), object.GetName(), err)
	}
	return value, nil
}

// recordDecision puts a decision in front of an object's others.
func (e *Engine) recordDecision(ctx context.Context, object client.Object, d inplace.Decision) error {
	kept := []inplace.Decision{d}
	for _, old := range record.DecisionsOf(object.GetAnnotations()) {
		if old.DesiredDigest != d.DesiredDigest && len(kept) < maxDecisions {
			kept = append(kept, old)
		}
	}
	p := Patch{}
	// Where they do not fit, the oldest decisions leave, as those beyond maxDecisions do.
	if err := setFitting(p, object.GetAnnotations(), v1alpha1.UpdateDecisionsAnnotation, kept,
		func(list []inplace.Decision) []inplace.Decision { return list[:len(list)-1] }); err != nil {
		return err
	}
	return e.fence.Retry(ctx, object, func() error { return e.fence.Annotate(ctx, object, p) })
}

// recordProgress puts an update's progress on its Machine, with the protection from remediation that it needs.
func (m *Machine) recordProgress(ctx context.Context, before, progress *inplace.Progress, policy policy.Policy) error {
	p := Patch{}
	if err := p.set(m.Object.Annotations, v1alpha1.UpdateProgressAnnotation, progress); err != nil {
		return err
	}
	names := make([]string, 0, len(progress.Steps))
	for _, s := range progress.Steps {
		names = append(names, s.Updater)
	}
	if err := p.set(m.Object.Annotations, v1alpha1.UpdatePlanAnnotation, names); err != nil {
		return err
	}
	maps.Copy(p, m.Protection(before, progress, policy))
	switch {
	case before == nil:
		// A wish to abandon that is older than the update is about another one. From here on no
		// revert takes the Machine back.
		p.removeFrom(m.Object.Annotations, v1alpha1.UpdateAbandonAnnotation, v1alpha1.MovedFromAnnotation,
			v1alpha1.ScaleDownDisabledAnnotation)
		if slices.ContainsFunc(progress.Steps, func(s inplace.Step) bool { return s.SetsVersion }) {
			m.withdrawRelease(p)
		}
	case before.Phase == inplace.Failed && progress.Phase != inplace.Failed:
		p.removeFrom(m.Object.Annotations, v1alpha1.UpdateRetryAnnotation)
	}
	return m.Record(ctx, p)
}

// withdrawRelease takes away what says which release an annotation brought a machine to: an updater is about to bring another one.
func (m *Machine) withdrawRelease(p Patch) {
	p.removeFrom(m.Object.Annotations, m.Prefix+v1alpha1.InPlaceUpgradeRelease)
	if status := m.Prefix + v1alpha1.InPlaceUpgradeStatus; m.Object.Annotations[status] == string(request.Done) {
		p.removeFrom(m.Object.Annotations, status)
	}
}

// recordEnd removes all that belongs to a running update.
func (m *Machine) recordEnd(ctx context.Context, action inplace.Finish, decision *inplace.Decision) error {
	p := Patch{}
	if err := p.set(m.Object.Annotations, v1alpha1.LastUpdateAnnotation, action.Summary); err != nil {
		return err
	}
	if err := setDirty(m.Object, p, action, decision); err != nil {
		return err
	}
	m.clearUpdate(p)
	p.removeFrom(m.Object.Annotations, v1alpha1.UpdateAbandonAnnotation, v1alpha1.UpdateOwedAnnotation, v1alpha1.MovedFromAnnotation)
	return m.Record(ctx, p)
}

// recordAbandon removes the update and Cluster API's mark: its controllers then take the Machine up again. The summary of
// the last finished update goes too, because the machine need not be any longer what that update made of it.
func (m *Machine) recordAbandon(ctx context.Context, owed inplace.Owed) error {
	p := Patch{}
	if err := p.set(m.Object.Annotations, v1alpha1.UpdateOwedAnnotation, owed); err != nil {
		return err
	}
	m.clearUpdate(p)
	p.removeFrom(m.Object.Annotations, v1alpha1.UpdateAbandonAnnotation, v1alpha1.LastUpdateAnnotation, v1alpha1.UpdateDecisionsAnnotation,
		clusterv1.UpdateInProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation, v1alpha1.MovedFromAnnotation,
		v1alpha1.ScaleDownDisabledAnnotation)
	return m.Record(ctx, p)
}

func (m *Machine) clearUpdate(p Patch) {
	p.removeFrom(m.Object.Annotations, v1alpha1.UpdateProgressAnnotation, v1alpha1.UpdatePlanAnnotation, v1alpha1.UpdateRetryAnnotation)
	// A record that cannot be read has handed nothing to remediation.
	before, err := readAnnotation[inplace.Progress](m.Object, v1alpha1.UpdateProgressAnnotation)
	if err != nil {
		before = nil
	}
	maps.Copy(p, m.Protection(before, nil, policy.Policy{}))
}

// Protection returns the changes of the protection from remediation and from `clusterctl move` that belong in the
// write that takes the record of an update from before to after; nil is no update.
func (m *Machine) Protection(before, after *inplace.Progress, policy policy.Policy) Patch {
	p := changeMove(m.Object.Annotations, after)
	maps.Copy(p, ChangeRemediation(m.Object.Annotations, before, after, policy, RemediationHeld(m.Object) != ""))
	return p
}

// DirtyField is a field that a Machine's objects carry, but that was not applied to the running machine.
type DirtyField struct {
	cover.Pointer `json:",inline"`
	Since         time.Time `json:"since"`
}

// setDirty records the dirty fields of the update that ends. A field that was dirty before keeps its time; one that the
// update applied is no longer dirty; one that it left alone stays so.
func setDirty(m *clusterv1.Machine, p Patch, action inplace.Finish, decision *inplace.Decision) error {
	var before []DirtyField
	// What cannot be read is replaced.
	if read, err := readAnnotation[[]DirtyField](m, v1alpha1.DirtyFieldsAnnotation); err == nil && read != nil {
		before = *read
	}
	var applied []cover.Pointer
	if decision != nil {
		for _, c := range decision.Changes {
			applied = append(applied, cover.Pointer{Part: c.Part, Path: c.Path})
		}
	}
	after := slices.DeleteFunc(slices.Clone(before), func(f DirtyField) bool { return slices.Contains(applied, f.Pointer) })
	for _, pointer := range action.Dirty {
		if !slices.ContainsFunc(after, func(f DirtyField) bool { return f.Pointer == pointer }) {
			after = append(after, DirtyField{Pointer: pointer, Since: action.Summary.Ended})
		}
	}
	if len(after) == 0 {
		p.removeFrom(m.Annotations, v1alpha1.DirtyFieldsAnnotation)
		return nil
	}
	if slices.Equal(before, after) {
		return nil
	}
	// Nothing is decided by them: where they do not fit, those that have been dirty for longest leave.
	return setFitting(p, m.Annotations, v1alpha1.DirtyFieldsAnnotation, after,
		func(list []DirtyField) []DirtyField { return list[1:] })
}
