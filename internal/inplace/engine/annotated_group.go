package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// joinedPoll is when a group is looked at again one of whose machines has joined and cannot be upgraded yet. That its node has come shows in its status,
// which is not watched.
const joinedPoll = 15 * time.Second

// UpgradeGroup takes the upgrade of a MachineDeployment or control plane as far as it goes without waiting. It is idempotent, and may be cut short at any point.
func (e *Engine) UpgradeGroup(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	seen := capi.MetadataOf(gvk)
	if err := e.Client.Get(ctx, key, seen); err != nil {
		if apierrors.IsNotFound(err) {
			e.shown.remove(gvk.GroupKind(), key)
			e.members.remove(key)
			return Result{}, nil
		}
		return Result{}, fmt.Errorf("reading the metadata of %s %s: %w", gvk.Kind, key, err)
	}
	if !e.keys.AsksGroup(seen.Annotations) && !e.shown.has(gvk.GroupKind(), key) {
		e.members.remove(key)
		return Result{}, nil
	}
	release, ok := e.tenants.groups.TryAcquire(key.Namespace)
	if !ok {
		return Result{After: turnedAwayFor}, nil
	}
	defer release()
	r, err := e.readGroup(ctx, gvk, key)
	if err != nil || r == nil {
		return Result{}, err
	}
	result, err := r.carryOn(ctx)
	if isStale(err) {
		return Result{Now: true}, nil
	}
	return result, err
}

// groupRun is one reconcile of a group.
type groupRun struct {
	*Engine
	gvk        schema.GroupVersionKind
	object     *unstructured.Unstructured
	conditions []metav1.Condition
	cluster    *clusterv1.Cluster
	// machines may be the cache's own.
	machines []*clusterv1.Machine
	facts    request.Group
}

func (r *groupRun) name() string { return client.ObjectKeyFromObject(r.object).String() }

// carryOn decides, records and acts once.
func (r *groupRun) carryOn(ctx context.Context) (Result, error) {
	v := request.DecideGroup(r.facts)
	if v.Kubelets {
		if more, err := r.noteKubelets(ctx); more || err != nil {
			return Result{Now: true}, err
		}
		v = request.DecideGroup(r.facts)
	}
	if v.ForgetKubelets {
		if more, err := r.forgetKubelets(ctx); more || err != nil {
			return Result{Now: true}, err
		}
	}
	changed, err := r.settle(ctx, v)
	if err != nil {
		return Result{}, err
	}
	return r.carryOut(ctx, v.Action, changed)
}

// settle records what was decided, and shows it. It reports whether anything had to be recorded.
func (r *groupRun) settle(ctx context.Context, v request.GroupVerdict) (changed bool, err error) {
	patch, err := difference(r.keys, r.object.GetAnnotations(), r.facts.Recorded(), v.After)
	if err != nil {
		return false, err
	}
	if v.State == (request.State{}) {
		// Once nothing is recorded nobody looks at the group any longer, so the condition goes first.
		if err := r.show(ctx, v.State); err != nil {
			return false, err
		}
	}
	if len(patch) > 0 {
		if err := r.fence.Annotate(ctx, r.object, patch); err != nil {
			return false, err
		}
		r.emit(ctx, r.gvk.Kind, r.object, v.Event)
	}
	if isRest(v.Action) && v.State != (request.State{}) {
		if err := r.show(ctx, v.State); isStale(err) {
			return false, err
		} else if err != nil {
			logFor(ctx).Error(err, "Writing the condition of a group", "kind", r.gvk.Kind, "group", r.name())
		}
	}
	return len(patch) > 0, nil
}

// isRest reports whether nothing is done just now. What is done at once need not be shown: each change of a condition is a write.
func isRest(a request.GroupAction) bool {
	switch a.(type) {
	case request.Rest, request.Wait:
		return true
	case request.Mark, request.Unmark, request.RetryMember, request.Raise:
	}
	return false
}

// carryOut carries out one action.
func (r *groupRun) carryOut(ctx context.Context, a request.GroupAction, changed bool) (Result, error) {
	switch a := a.(type) {
	case request.Rest:
		if changed {
			return Result{Now: true}, nil
		}
		return Result{After: r.pollJoined()}, nil
	case request.Wait:
		return Result{After: a.After, Now: a.After <= 0}, nil
	case request.Mark:
		return r.edit(ctx, a.Member, func(m *clusterv1.Machine) Patch { return r.mark(m, a.To) })
	case request.Unmark:
		return r.edit(ctx, a.Member, func(m *clusterv1.Machine) Patch {
			if m.Annotations[r.keys.To] != a.To {
				return nil
			}
			return Patch{r.keys.To: nil}
		})
	case request.RetryMember:
		return r.edit(ctx, a.Member, func(m *clusterv1.Machine) Patch {
			if has(m, v1alpha1.UpdateRetryAnnotation) {
				return nil
			}
			return Patch{v1alpha1.UpdateRetryAnnotation: new(string)}
		})
	case request.Raise:
		err := r.raise(ctx, a.Version)
		if isRefusal(err) {
			// Asking again does not help, and the machines have what was asked for.
			r.facts.CannotRaise = fmt.Sprintf("the API server refuses it: %s; set %s yourself when that is fixed", text.Bound(err.Error(), maxMessage/2), versionField(r.facts.ControlPlane))
			return r.carryOn(ctx)
		}
		if err != nil {
			return Result{}, err
		}
		logFor(ctx).Info("Raised the version of a group whose machines run it", "kind", r.gvk.Kind, "group", r.name(), "version", a.Version.String())
		return Result{Now: true}, nil
	}
	return Result{}, fmt.Errorf("no way to carry out %T", a)
}

// edit writes annotations of a machine of the group, and has the group looked at again: at once, or after a moment where there was nothing to write.
func (r *groupRun) edit(ctx context.Context, member string, compute func(*clusterv1.Machine) Patch) (Result, error) {
	for _, m := range r.machines {
		if m.Name != member {
			continue
		}
		p := compute(m)
		if len(p) == 0 {
			return Result{After: nextStep}, nil
		}
		m, err := r.annotate(ctx, m, p)
		if err != nil {
			return Result{}, err
		}
		logFor(ctx).Info("Changed what a machine of a group is asked for", "kind", r.gvk.Kind, "group", r.name(), "machine", member, "to", m.Annotations[r.keys.To])
		return Result{Now: true}, nil
	}
	return Result{}, fmt.Errorf("%s %s has no Machine %s", r.gvk.Kind, r.name(), member)
}

// annotate writes annotations of a machine of the group, and returns the machine as it is after that.
func (r *groupRun) annotate(ctx context.Context, m *clusterv1.Machine, p Patch) (*clusterv1.Machine, error) {
	written := m.DeepCopy()
	if err := r.fence.Annotate(ctx, written, p); err != nil {
		return nil, err
	}
	r.members.addWritten(written)
	return written, nil
}

// mark asks for the upgrade of a machine. What an earlier one left goes, unless it runs.
func (r *groupRun) mark(m *clusterv1.Machine, to string) Patch {
	p := Patch{r.keys.To: &to}
	u, unreadable := readRecord[request.Upgrade](m.Annotations)
	if unreadable != "" || u.IsRunning() {
		return p
	}
	for _, key := range []string{r.keys.Status, r.keys.LastFailed, r.keys.ChangeID, v1alpha1.UpdateRetryAnnotation} {
		if has(m, key) {
			p[key] = nil
		}
	}
	return p
}

// versionPath is where a group's version is.
func versionPath(controlPlane bool) []string {
	if controlPlane {
		return []string{"spec", "version"}
	}
	return []string{"spec", "template", "spec", "version"}
}

func versionField(controlPlane bool) string { return strings.Join(versionPath(controlPlane), ".") }

// raise sets the version of the group's spec, if the group is still what was read.
func (r *groupRun) raise(ctx context.Context, to version.Version) error {
	spec := map[string]any{} // It is the first part of the path.
	if err := unstructured.SetNestedField(spec, to.String(), versionPath(r.facts.ControlPlane)[1:]...); err != nil {
		return fmt.Errorf("making a patch of the version: %w", err)
	}
	return r.fence.PatchSpec(ctx, r.object, spec)
}

// isRefusal reports whether the API server, or an admission webhook, says no to a change for what it is.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// pollJoined is when to look again for machines that have joined and have not got the group's release yet; 0 where there are none.
func (r *groupRun) pollJoined() time.Duration {
	if r.facts.Deleting || r.facts.Marks.Release == "" {
		return 0
	}
	record := r.facts.Record
	for _, m := range r.facts.Members {
		later := record == nil || record.Ended == nil || m.Created.After(*record.Ended)
		if m.Marks == (request.Marks{}) && m.Upgrade == nil && !m.Deleting && later {
			return joinedPoll
		}
	}
	return 0
}

// show shows how the upgrade stands, on kinds on which that is possible.
func (r *groupRun) show(ctx context.Context, s request.State) error {
	if !hasKeyedConditions(r.gvk) {
		return nil
	}
	return r.applyCondition(ctx, r.gvk, r.object, &r.conditions, s)
}
