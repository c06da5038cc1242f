package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/pkg/version"
)

// question is what Cluster API would ask about one step: the objects before and after it, which differ in their version.
type question struct {
	scope            cover.Scope
	current, desired cover.Objects
}

// question makes up the objects of a step.
func (p *preview) question(ctx context.Context, g Group, step Step) (question, error) {
	q := question{scope: cover.MachineSet}
	if g.ControlPlane {
		q.scope = cover.Machine
	}
	spec := machineSpec(g)
	infrastructure, err := p.object(ctx, g, spec.InfrastructureRef)
	if err != nil {
		return question{}, err
	}
	var bootstrap *unstructured.Unstructured
	switch ref := spec.Bootstrap.ConfigRef; {
	case ref.IsDefined():
		if bootstrap, err = p.object(ctx, g, ref); err != nil {
			return question{}, err
		}
	case g.Kubeadm:
		bootstrap = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "spec": map[string]any{},
		}}
	}
	for _, side := range []struct {
		version version.Version
		into    *cover.Objects
	}{{step.From, &q.current}, {step.To, &q.desired}} {
		spec.Version = side.version.String()
		if side.into.Machine, err = encode(g, spec); err != nil {
			return question{}, err
		}
		if side.into.Infrastructure, err = engine.SentObject(infrastructure); err != nil {
			return question{}, err
		}
		config := bootstrap
		if g.Kubeadm {
			config = withLocalMode(bootstrap, side.version.Minor())
		}
		if side.into.Bootstrap, err = engine.SentObject(config); err != nil {
			return question{}, err
		}
	}
	return q, nil
}

// withLocalMode returns a KubeadmConfig as KubeadmControlPlane wants it for a version.
func withLocalMode(config *unstructured.Unstructured, minor version.Minor) *unstructured.Unstructured {
	path := []string{"spec", "clusterConfiguration", "featureGates", cover.LocalModeGate}
	config = config.DeepCopy()
	value, set, err := unstructured.NestedBool(config.Object, path...)
	switch {
	case err != nil:
	case cover.SetsLocalMode(minor) && !set:
		// What stands in the way is of another shape than a KubeadmConfig; then nothing is known to change.
		_ = unstructured.SetNestedField(config.Object, true, path...)
	case !cover.SetsLocalMode(minor) && value:
		unstructured.RemoveNestedField(config.Object, path...)
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
func (p *preview) object(ctx context.Context, g Group, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if ref.IsDefined() && p.Fetch != nil {
		object, err := p.Fetch(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s, which its machines are made of: %w", ref.Kind, ref.Name, err)
		}
		return &unstructured.Unstructured{Object: object}, nil
	}
	made := map[string]any{"apiVersion": ref.APIGroup + "/v1beta2", "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": g.Namespace}}
	if !ref.IsDefined() {
		made["apiVersion"], made["kind"] = "windlass.dev/v1alpha1", "Unknown"
	}
	made["spec"] = map[string]any{}
	if !g.ControlPlane {
		made["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	}
	return &unstructured.Unstructured{Object: made}, nil
}
