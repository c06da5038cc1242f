package preview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
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
	var bootstrap map[string]any
	switch ref := spec.Bootstrap.ConfigRef; {
	case ref.IsDefined():
		if bootstrap, err = p.object(ctx, g, ref); err != nil {
			return question{}, err
		}
	case g.Kubeadm:
		bootstrap = map[string]any{"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "spec": map[string]any{}}
	}
	for _, side := range []struct {
		version version.Version
		into    *cover.Objects
	}{{step.From, &q.current}, {step.To, &q.desired}} {
		spec.Version = side.version.String()
		if side.into.Machine, err = encode(g, spec); err != nil {
			return question{}, err
		}
		if side.into.Infrastructure, err = sentObject(infrastructure); err != nil {
			return question{}, err
		}
		config := bootstrap
		if g.Kubeadm {
			config = withLocalMode(bootstrap, side.version.Minor())
		}
		if side.into.Bootstrap, err = sentObject(config); err != nil {
			return question{}, err
		}
	}
	return q, nil
}

// The minors from which, and up to which, KubeadmControlPlane sets a feature gate of kubeadm in each machine's KubeadmConfig
// by itself: DefaultFeatureGates in Cluster API's controlplane/kubeadm/pkg/desiredstate/desired_state.go.
var (
	localModeFrom = version.Minor{Major: 1, Minor: 31}
	localModeTo   = version.Minor{Major: 1, Minor: 36}
)

const localModeGate = "ControlPlaneKubeletLocalMode"

// withLocalMode returns a KubeadmConfig as KubeadmControlPlane wants it for a version.
func withLocalMode(config map[string]any, minor version.Minor) map[string]any {
	path := []string{"spec", "clusterConfiguration", "featureGates", localModeGate}
	config = runtime.DeepCopyJSON(config)
	_, set, err := unstructured.NestedBool(config, path...)
	switch {
	case err != nil || minor.Before(localModeFrom):
	case !minor.Before(localModeTo):
		unstructured.RemoveNestedField(config, path...)
	case !set:
		// What stands in the way is of another shape than a KubeadmConfig; then nothing is known to change.
		_ = unstructured.SetNestedField(config, true, path...)
	}
	return config
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
func (p *preview) object(ctx context.Context, g Group, ref clusterv1.ContractVersionedObjectReference) (map[string]any, error) {
	if ref.IsDefined() && p.Fetch != nil {
		object, err := p.Fetch(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s, which its machines are made of: %w", ref.Kind, ref.Name, err)
		}
		return object, nil
	}
	made := map[string]any{"apiVersion": ref.APIGroup + "/v1beta2", "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": g.Namespace}}
	if !ref.IsDefined() {
		made["apiVersion"], made["kind"] = "windlass.dev/v1alpha1", "Unknown"
	}
	made["spec"] = map[string]any{}
	if !g.ControlPlane {
		made["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	}
	return made, nil
}

// sentObject is the part of an object that Cluster API sends; nothing where there is none.
func sentObject(object map[string]any) (json.RawMessage, error) {
	if object == nil {
		return nil, nil
	}
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
		if err := errors.Join(engine.SetMachine(current, &request.Current), engine.SetMachine(q.desired, &request.Desired)); err != nil {
			return cover.Patches{}, err
		}
		return u.CanUpdateMachine(ctx, request)
	}
	request := &runtimehooksv1.CanUpdateMachineSetRequest{}
	if err := errors.Join(engine.SetMachineSet(current, &request.Current), engine.SetMachineSet(q.desired, &request.Desired)); err != nil {
		return cover.Patches{}, err
	}
	return u.CanUpdateMachineSet(ctx, request)
}
