package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/core/cover"
	"github.com/windlass-dev/windlass/internal/port"
)

// question is what Cluster API would ask about one step: the objects before and after it, which differ in their version.
type question struct {
	machine          bool
	current, desired cover.Objects
}

func (q question) scope() cover.Scope {
	if q.machine {
		return cover.Machine
	}
	return cover.MachineSet
}

// question makes up the objects of a step.
func (p *preview) question(ctx context.Context, g Group, step Step) (question, error) {
	q := question{machine: g.ControlPlane}
	spec := machineSpec(g)
	infrastructure, err := p.object(ctx, g, spec.InfrastructureRef)
	if err != nil {
		return question{}, err
	}
	var bootstrap json.RawMessage
	if spec.Bootstrap.ConfigRef.IsDefined() {
		if bootstrap, err = p.object(ctx, g, spec.Bootstrap.ConfigRef); err != nil {
			return question{}, err
		}
	}
	for _, side := range []struct {
		version string
		into    *cover.Objects
	}{{step.From.String(), &q.current}, {step.To.String(), &q.desired}} {
		spec.Version = side.version
		machine, err := encode(g, spec)
		if err != nil {
			return question{}, err
		}
		*side.into = cover.Objects{Machine: machine, Infrastructure: infrastructure, Bootstrap: bootstrap}
	}
	return q, nil
}

// machineSpec is that of a live object where there is one.
func machineSpec(g Group) clusterv1.MachineSpec {
	switch {
	case g.Machine != nil:
		return *g.Machine.Spec.DeepCopy()
	case g.MachineDeployment != nil:
		return *g.MachineDeployment.Spec.Template.Spec.DeepCopy()
	default:
		return clusterv1.MachineSpec{ClusterName: g.Cluster}
	}
}

// encode makes a Machine, or a MachineSet, with that spec.
func encode(g Group, spec clusterv1.MachineSpec) (json.RawMessage, error) {
	var object any
	name := g.Object
	if name == "" {
		name = g.Cluster + "-" + g.Name
	}
	if g.ControlPlane {
		m := &clusterv1.Machine{Spec: spec}
		m.APIVersion, m.Kind = clusterv1.GroupVersion.String(), "Machine"
		m.Name, m.Namespace, m.Labels = name, g.Namespace, maps.Clone(g.MachineLabels)
		if g.Machine != nil {
			m.Name, m.Labels, m.Annotations = g.Machine.Name, g.Machine.Labels, g.Machine.Annotations
		}
		object = m
	} else {
		ms := &clusterv1.MachineSet{}
		ms.APIVersion, ms.Kind = clusterv1.GroupVersion.String(), "MachineSet"
		ms.Name, ms.Namespace, ms.Labels = name, g.Namespace, maps.Clone(g.MachineLabels)
		ms.Spec.ClusterName = g.Cluster
		ms.Spec.Template.Labels, ms.Spec.Template.Spec = maps.Clone(g.MachineLabels), spec
		object = ms
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the %s: %w", name, err)
	}
	return raw, nil
}

// object is what a reference points to: fetched, or else made up without content, because Cluster API always sends one.
func (p *preview) object(ctx context.Context, g Group, ref clusterv1.ContractVersionedObjectReference) (json.RawMessage, error) {
	if ref.IsDefined() && p.Fetch != nil {
		object, err := p.Fetch(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s, which its machines are made of: %w", ref.Kind, ref.Name, err)
		}
		return sentObject(object)
	}
	made := map[string]any{"apiVersion": ref.APIGroup + "/v1beta2", "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": g.Namespace}}
	if !ref.IsDefined() {
		made["apiVersion"], made["kind"] = "windlass.dev/v1alpha1", "Unknown"
	}
	made["spec"] = map[string]any{}
	if !g.ControlPlane {
		made["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	}
	return sentObject(made)
}

// sentObject is the part of an object that Cluster API sends.
func sentObject(object map[string]any) (json.RawMessage, error) {
	sent := map[string]any{}
	for _, field := range []string{"apiVersion", "kind", "spec"} {
		if value, ok := object[field]; ok {
			sent[field] = value
		}
	}
	metadata := map[string]any{}
	if all, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"name", "namespace", "labels", "annotations"} {
			if value, ok := all[field]; ok {
				metadata[field] = value
			}
		}
	}
	sent["metadata"] = metadata
	raw, err := json.Marshal(sent)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return raw, nil
}

// ask puts the question to one updater, about other current objects.
func (q question) ask(ctx context.Context, u port.Updater, current cover.Objects) (cover.Patches, error) {
	if q.machine {
		request := &runtimehooksv1.CanUpdateMachineRequest{}
		for _, side := range []struct {
			from cover.Objects
			into *runtimehooksv1.CanUpdateMachineRequestObjects
		}{{current, &request.Current}, {q.desired, &request.Desired}} {
			if err := json.Unmarshal(side.from.Machine, &side.into.Machine); err != nil {
				return cover.Patches{}, fmt.Errorf("decoding the Machine: %w", err)
			}
			side.into.InfrastructureMachine = runtime.RawExtension{Raw: side.from.Infrastructure}
			side.into.BootstrapConfig = runtime.RawExtension{Raw: side.from.Bootstrap}
		}
		return u.CanUpdateMachine(ctx, request)
	}
	request := &runtimehooksv1.CanUpdateMachineSetRequest{}
	for _, side := range []struct {
		from cover.Objects
		into *runtimehooksv1.CanUpdateMachineSetRequestObjects
	}{{current, &request.Current}, {q.desired, &request.Desired}} {
		if err := json.Unmarshal(side.from.Machine, &side.into.MachineSet); err != nil {
			return cover.Patches{}, fmt.Errorf("decoding the MachineSet: %w", err)
		}
		side.into.InfrastructureMachineTemplate = runtime.RawExtension{Raw: side.from.Infrastructure}
		side.into.BootstrapConfigTemplate = runtime.RawExtension{Raw: side.from.Bootstrap}
	}
	return u.CanUpdateMachineSet(ctx, request)
}
