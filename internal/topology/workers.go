package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// groups tells what must be done for the groups of one kind.
type groups[S any] struct {
	kind, label string
	// create, update and remove do it for one group.
	create func(ctx context.Context, name string, desired *S) error
	update func(ctx context.Context, name string, current, desired *S, hold bool) error
	remove func(ctx context.Context, name string, current *S) error
}

// applyGroups goes through the groups in the order of their names. One group's failure does not keep it from the others.
func applyGroups[S any](ctx context.Context, a *applier, g groups[S], current, desired map[string]*S, workers map[string]Worker) error {
	var failures []error
	var live map[string]bool
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		var err error
		switch hold := workers[name].Hold; {
		case current[name] != nil:
			err = g.update(ctx, name, current[name], desired[name], hold)
		case !hold:
			if live == nil {
				if live, err = a.liveGroups(ctx, g.kind, g.label); err != nil {
					return errors.Join(append(failures, err)...)
				}
			}
			if !live[name] {
				err = g.create(ctx, name, desired[name])
			}
		}
		if err != nil {
			failures = append(failures, groupError(g.kind, name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if desired[name] == nil {
			if err := g.remove(ctx, name, current[name]); err != nil {
				failures = append(failures, groupError(g.kind, name, err))
			}
		}
	}
	return errors.Join(failures...)
}

func (a *applier) applyMachineDeployments(ctx context.Context, current, desired scope.MachineDeploymentsStateMap, workers map[string]Worker) error {
	return applyGroups(ctx, a, groups[scope.MachineDeploymentState]{
		kind: "MachineDeployment", label: clusterv1.ClusterTopologyMachineDeploymentNameLabel,
		create: func(ctx context.Context, name string, desired *scope.MachineDeploymentState) error {
			return a.applyMachineDeployment(ctx, name, &scope.MachineDeploymentState{}, desired, false)
		},
		update: a.applyMachineDeployment,
		remove: a.deleteMachineDeployment,
	}, current, desired, workers)
}

// applyMachineDeployment creates or updates a MachineDeployment, its templates before it, and its MachineHealthCheck.
func (a *applier) applyMachineDeployment(ctx context.Context, group string, current, desired *scope.MachineDeploymentState, hold bool) error {
	exists := current.Object != nil
	if exists {
		// A MachineHealthCheck does not depend on the version.
		if err := a.applyHealthCheck(ctx, slot{roleMachineDeploymentHealthCheck, group}, current.MachineHealthCheck, desired.MachineHealthCheck); err != nil {
			return err
		}
		if hold || !current.Object.DeletionTimestamp.IsZero() {
			return nil
		}
	}
	t := target{slot: slot{roleMachineDeployment, group}}
	note := ""
	if exists {
		if err := checkTemplates(current, desired); err != nil {
			return err
		}
		t.current = current.Object
		note = versionNote(current.Object.Spec.Template.Spec.Version, desired.Object.Spec.Template.Spec.Version)
		if note != "" {
			now := &clusterv1.MachineDeployment{}
			err := a.checkVersion(ctx, now, current.Object, &now.Spec.Template, &current.Object.Spec.Template)
			if err != nil {
				return err
			}
		}
	}

	parts := a.groupTemplates(group, current, desired)
	if err := a.applyWithTemplates(ctx, t, desired.Object, parts, note); err != nil {
		return err
	}
	if exists {
		return nil
	}
	return a.applyHealthCheck(ctx, slot{roleMachineDeploymentHealthCheck, group}, nil, desired.MachineHealthCheck)
}

// checkVersion refuses to send a group to another version if it was sent somewhere since it was read: the cache
// of a process that has just begun may be older than the last step. now receives the live object, whose template
// is live; read is the one of seen.
func (a *applier) checkVersion(
	ctx context.Context, now, seen client.Object, live, read *clusterv1.MachineTemplateSpec,
) error {
	if err := a.apiReader.Get(ctx, client.ObjectKeyFromObject(seen), now); err != nil {
		return fmt.Errorf("getting %s: %w", name(seen), err)
	}
	if live.Spec.Version != read.Spec.Version {
		return fmt.Errorf("%s has been sent to %s since it was read at %s; it is read again",
			name(seen), live.Spec.Version, read.Spec.Version)
	}
	return nil
}

// checkTemplates refuses templates that cannot take the place of the current ones. The kind of
// bootstrap may change.
func checkTemplates(current, desired *scope.MachineDeploymentState) error {
	if current.InfrastructureMachineTemplate != nil {
		err := checkCompatible(
			current.InfrastructureMachineTemplate, desired.InfrastructureMachineTemplate)
		if err != nil {
			return err
		}
	}
	if current.BootstrapTemplate == nil {
		return nil
	}
	return checkNamespace(current.BootstrapTemplate, desired.BootstrapTemplate)
}

// applyWithTemplates applies the templates of a MachineDeployment, then itself with their names. It
// uses those of an earlier MachineSet again if their content is the desired one. What was created
// goes again when nothing can refer to it.
func (a *applier) applyWithTemplates(
	ctx context.Context, t target, desired *clusterv1.MachineDeployment, parts []*part, note string,
) error {
	for _, p := range parts {
		var err error
		if p.result, err = a.assess(ctx, p.target, true); err != nil {
			return err
		}
	}
	set, err := a.findEarlier(ctx, t.current, desired, parts)
	if err != nil {
		return err
	}
	if set != nil {
		note += fmt.Sprintf(" back to the templates of MachineSet %q", set.Name)
	}
	var created []client.Object
	names := make([]string, len(parts))
	for i, p := range parts {
		object, isNew, err := a.writePart(ctx, p)
		if err != nil {
			a.cleanUp(ctx, created)
			return err
		}
		created = appendIf(created, isNew, object)
		names[i] = object.GetName()
	}
	t.desired = withTemplates(desired, names[0], names[1])
	err = a.apply(ctx, t, note)
	if err != nil && rejected(err) {
		a.cleanUp(ctx, created)
	}
	return err
}

func appendIf(objects []client.Object, condition bool, object *unstructured.Unstructured) []client.Object {
	if condition {
		return append(objects, object)
	}
	return objects
}

// withTemplates returns the MachineDeployment with the names of its templates, which differ from the desired ones after a rotation.
func withTemplates(object *clusterv1.MachineDeployment, infrastructure, bootstrap string) *clusterv1.MachineDeployment {
	machine := &object.Spec.Template.Spec
	if machine.InfrastructureRef.Name == infrastructure && machine.Bootstrap.ConfigRef.Name == bootstrap {
		return object
	}
	renamed := object.DeepCopy()
	renamed.Spec.Template.Spec.InfrastructureRef.Name = infrastructure
	renamed.Spec.Template.Spec.Bootstrap.ConfigRef.Name = bootstrap
	return renamed
}

// deleteMachineDeployment deletes a MachineDeployment that left the topology. Its templates go with its MachineSets.
func (a *applier) deleteMachineDeployment(ctx context.Context, group string, current *scope.MachineDeploymentState) error {
	a.memory.drop(a.key(), slot{roleMachineDeployment, group}, slot{roleMachineDeploymentInfrastructure, group}, slot{roleMachineDeploymentBootstrap, group})
	if err := a.applyHealthCheck(ctx, slot{roleMachineDeploymentHealthCheck, group}, current.MachineHealthCheck, nil); err != nil {
		return err
	}
	return a.delete(ctx, current.Object)
}

func (a *applier) applyMachinePools(ctx context.Context, current, desired scope.MachinePoolsStateMap, workers map[string]Worker) error {
	return applyGroups(ctx, a, groups[scope.MachinePoolState]{
		kind: "MachinePool", label: clusterv1.ClusterTopologyMachinePoolNameLabel,
		create: a.createMachinePool,
		update: a.updateMachinePool,
		remove: func(ctx context.Context, group string, current *scope.MachinePoolState) error {
			a.memory.drop(a.key(), slot{roleMachinePool, group}, slot{roleMachinePoolInfrastructure, group}, slot{roleMachinePoolBootstrap, group})
			return a.delete(ctx, current.Object)
		},
	}, current, desired, workers)
}

// createMachinePool creates a MachinePool, its infrastructure and bootstrap objects before it.
func (a *applier) createMachinePool(ctx context.Context, group string, desired *scope.MachinePoolState) error {
	var created []client.Object
	for _, part := range []struct {
		place  slot
		object *unstructured.Unstructured
	}{
		{slot{roleMachinePoolInfrastructure, group}, desired.InfrastructureMachinePoolObject},
		{slot{roleMachinePoolBootstrap, group}, desired.BootstrapObject},
	} {
		if err := a.apply(ctx, target{slot: part.place, desired: part.object}, ""); err != nil {
			a.cleanUp(ctx, created)
			return err
		}
		created = append(created, part.object)
	}
	err := a.apply(ctx, target{slot: slot{roleMachinePool, group}, desired: desired.Object}, "")
	if rejected(err) {
		a.cleanUp(ctx, created)
	}
	return err
}

// updateMachinePool updates a MachinePool's objects in place: they are objects of their own, not templates.
func (a *applier) updateMachinePool(ctx context.Context, group string, current, desired *scope.MachinePoolState, hold bool) error {
	if hold || !current.Object.DeletionTimestamp.IsZero() {
		return nil
	}
	note := versionNote(current.Object.Spec.Template.Spec.Version, desired.Object.Spec.Template.Spec.Version)
	if note != "" {
		now := &clusterv1.MachinePool{}
		err := a.checkVersion(ctx, now, current.Object, &now.Spec.Template, &current.Object.Spec.Template)
		if err != nil {
			return err
		}
	}
	before := len(a.changes)
	if err := a.applyPart(ctx, slot{roleMachinePoolInfrastructure, group}, current.InfrastructureMachinePoolObject, desired.InfrastructureMachinePoolObject); err != nil {
		return err
	}
	if err := a.applyPart(ctx, slot{roleMachinePoolBootstrap, group}, current.BootstrapObject, desired.BootstrapObject); err != nil {
		return err
	}
	parts := len(a.changes)
	err := a.apply(ctx, target{slot: slot{roleMachinePool, group}, current: current.Object, desired: desired.Object}, note)
	switch {
	case err == nil && note != "" && len(a.changes) > parts:
		version := desired.Object.Spec.Template.Spec.Version
		a.noteNotInPlace(current.Object, "brings the machines to "+version)
	case err == nil && parts > before:
		a.noteNotInPlace(current.Object, "decides what the change of the template does to the machines")
	}
	return err
}

// noteNotInPlace says on a MachinePool, whose template has changed, that no policy applies to it.
func (a *applier) noteNotInPlace(pool *clusterv1.MachinePool, provider string) {
	a.recorder.Eventf(pool, a.cluster, corev1.EventTypeNormal, NotInPlaceReason, string(Updated),
		"The infrastructure provider %s. UpdatePolicies select no MachinePools: Windlass updates none "+
			"of these machines in place", provider)
}

// applyPart applies an object of a MachinePool that exists.
func (a *applier) applyPart(ctx context.Context, place slot, current, desired *unstructured.Unstructured) error {
	if err := checkCompatible(current, desired); err != nil {
		return err
	}
	return a.apply(ctx, target{slot: place, current: current, desired: desired}, "")
}
