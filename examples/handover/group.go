package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// group is a hand-over of all machines of a MachineDeployment.
type group struct {
	takenGroup
	// cancel ends its work, and ended is closed when nothing of it runs any longer.
	cancel context.CancelCauseFunc
	ended  chan struct{}
	// idle says that no machine was left to update.
	idle bool
}

// takenGroup is what the state folder keeps of a group.
type takenGroup struct {
	Operation string `json:"operation"`
	// Machines are in the order of the inventory. The last ones, as many as Stay says, are not updated.
	Machines []updatesv1.ObjectName `json:"machines"`
	Stay     int32                  `json:"stay,omitempty"`
	Version  string                 `json:"version"`
	Desired  updatesv1.Objects      `json:"desired"`
	// Done are the machines that were updated, or that failed.
	Done []updatesv1.ObjectName `json:"done,omitempty"`
	// Ended says that the group was cancelled.
	Ended bool `json:"ended,omitempty"`
}

// take takes a group over. An operation that is known is accepted with the new limits, and does not begin
// again. The machines are updated one after another, which every budget permits.
func (u *updater) take(request *updatesv1.HandOverRequest) error {
	if request.OperationID == "" || request.Desired == nil || request.Budget == nil {
		return errors.New("a HandOver must have an operation id, a budget and desired objects")
	}
	if err := u.offer(request); err != nil {
		return err
	}
	version, err := versionOf(request)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.groups[request.OperationID]
	switch {
	case u.cancelled[request.OperationID] || known != nil && known.Ended:
		return fmt.Errorf("the operation %s was cancelled", request.OperationID)
	case known != nil:
		known.Stay = request.Budget.Stay
		if known.idle {
			u.beginGroup(known.takenGroup)
		}
		return u.writeGroup(known.takenGroup)
	}
	taken := takenGroup{
		Operation: request.OperationID, Machines: slices.Clone(request.Machines), Stay: request.Budget.Stay,
		Version: version, Desired: *request.Desired,
	}
	slices.SortFunc(taken.Machines, func(a, b updatesv1.ObjectName) int { return u.place(a) - u.place(b) })
	if err := u.writeGroup(taken); err != nil {
		return err
	}
	u.beginGroup(taken)
	return nil
}

// beginGroup works on a group. The caller holds mu.
func (u *updater) beginGroup(taken takenGroup) {
	ctx, cancel := context.WithCancelCause(u.work)
	g := &group{takenGroup: taken, cancel: cancel, ended: make(chan struct{})}
	u.groups[taken.Operation] = g
	u.running.Go(func() {
		defer close(g.ended)
		defer cancel(nil)
		for ctx.Err() == nil {
			machine, ok := u.next(g)
			if !ok {
				return
			}
			u.updateMember(ctx, g, machine)
		}
	})
}

// next returns the next machine of a group; false if none is left.
func (u *updater) next(g *group) (updatesv1.ObjectName, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, machine := range g.Machines[:max(len(g.Machines)-int(g.Stay), 0)] {
		if !slices.Contains(g.Done, machine) {
			return machine, true
		}
	}
	g.idle = true
	return updatesv1.ObjectName{}, false
}

// updateMember updates one machine of a group and writes its objects. A machine whose command fails is
// marked, and keeps its objects.
func (u *updater) updateMember(ctx context.Context, g *group, machine updatesv1.ObjectName) {
	host := u.inventory[u.place(machine)].Host
	cmd := u.newCommand(ctx, host, g.Version)
	desired, err := json.Marshal(g.Desired)
	if err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
	}
	cmd.Stdin = bytes.NewReader(desired)
	output, failed := cmd.CombinedOutput()
	//nolint:errcheck // It fails only when ctx ends; the next process does it again.
	wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		if failed == nil {
			err = u.writeObjects(ctx, machine, g.Desired)
		} else {
			mark := fmt.Sprintf("%s: running %s: %v: %s", g.Operation, u.options.command, failed, lastLine(output))
			err = u.annotate(ctx, machine, v1alpha1.UpdateFailedAnnotation, mark)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "handover:", err)
		}
		return err == nil || apierrors.IsNotFound(err), nil
	})
	if ctx.Err() != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	g.Done = append(g.Done, machine)
	if err := u.writeGroup(g.takenGroup); err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err) // After a restart the command runs once more.
	}
}

// writeObjects writes the desired specs of a machine's objects. The Machine is the last one: Windlass looks
// at it first.
func (u *updater) writeObjects(ctx context.Context, machine updatesv1.ObjectName, desired updatesv1.Objects) error {
	live, err := u.objects.Resource(machines).Namespace(machine.Namespace).Get(ctx, machine.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Machine %s: %w", nameOf(machine), err)
	}
	for _, part := range []struct {
		object runtime.RawExtension
		name   []string
	}{
		{desired.InfrastructureMachine, []string{"spec", "infrastructureRef", "name"}},
		{desired.BootstrapConfig, []string{"spec", "bootstrap", "configRef", "name"}},
	} {
		name, found, err := unstructured.NestedString(live.Object, part.name...)
		if err != nil || !found || len(part.object.Raw) == 0 {
			continue // The machine has no such object.
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(part.object.Raw, &kind); err != nil {
			return fmt.Errorf("reading an object of the request: %w", err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
		if err := u.writeSpec(ctx, resource, machine.Namespace, name, part.object); err != nil {
			return err
		}
	}
	return u.writeSpec(ctx, machines, machine.Namespace, machine.Name, desired.Machine)
}

// writeSpec merges the spec of a desired object into a live one. References are names of templates.
func (u *updater) writeSpec(
	ctx context.Context, resource schema.GroupVersionResource, namespace, name string, desired runtime.RawExtension,
) error {
	spec, err := specOf(desired)
	if err != nil {
		return err
	}
	delete(spec, "bootstrap")
	delete(spec, "infrastructureRef")
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil || len(spec) == 0 {
		return err
	}
	_, err = u.objects.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("writing %s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	return nil
}

// cancelGroup ends the work on a group, and reports whether the operation is one. It returns when its
// command has ended. The caller holds mu, and has it again afterwards.
func (u *updater) cancelGroup(operation, reason string) (known bool, err error) {
	g := u.groups[operation]
	if g == nil {
		return false, nil
	}
	g.Ended = true // Nothing of it is accepted any more.
	g.cancel(fmt.Errorf("%w: %s", errCancelled, reason))
	u.mu.Unlock()
	<-g.ended
	u.mu.Lock()
	return true, u.writeGroup(g.takenGroup)
}

// groupFiles ends the names of files about groups.
const groupFiles = ".group"

// resumeGroups continues the groups of an earlier process. The caller holds mu.
func (u *updater) resumeGroups() error {
	files, err := filepath.Glob(filepath.Join(u.options.stateDir, "*"+groupFiles))
	if err != nil {
		return fmt.Errorf("listing the state folder: %w", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading what was handed over: %w", err)
		}
		var taken takenGroup
		if err := json.Unmarshal(content, &taken); err != nil {
			return fmt.Errorf("reading what was handed over: %s: %w", file, err)
		}
		taken.Machines = slices.DeleteFunc(taken.Machines, func(m updatesv1.ObjectName) bool { return u.place(m) < 0 })
		if taken.Ended {
			u.cancelled[taken.Operation] = true
			continue
		}
		u.beginGroup(taken)
	}
	return nil
}

func (u *updater) writeGroup(taken takenGroup) error {
	return u.writeFile(filepath.Base(taken.Operation)+groupFiles, taken)
}
