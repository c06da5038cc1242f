package machineset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
)

// The names of Machines have at most nameLength characters. A longer one is cut, and ends in
// randomLength random characters.
const (
	nameLength   = 63
	randomLength = 5
)

// defaultNaming is the template of names where spec.machineNaming.template is empty.
const defaultNaming = "{{ .machineSet.name }}-{{ .random }}"

// newName returns the name of a new Machine. random returns so many random characters.
func newName(set *clusterv1.MachineSet, random func(int) string) (string, error) {
	naming := set.Spec.MachineNaming.Template
	if naming == "" {
		naming = defaultNaming
	}
	parsed, err := pool.ParseNaming(naming)
	if err != nil {
		return "", err
	}
	var name strings.Builder
	err = parsed.Execute(&name, map[string]any{
		"cluster":    map[string]any{"name": set.Spec.ClusterName},
		"machineSet": map[string]any{"name": set.Name},
		"random":     random(randomLength),
	})
	if err != nil {
		return "", fmt.Errorf("executing machineNaming.template %q: %w", naming, err)
	}
	if name.Len() > nameLength {
		return name.String()[:nameLength-randomLength] + random(randomLength), nil
	}
	return name.String(), nil
}

// NewMachine returns the Machine that a MachineSet creates, without references to bootstrap config
// and infrastructure.
func (r *Reconciler) NewMachine(set *clusterv1.MachineSet) (*clusterv1.Machine, error) {
	name, err := newName(set, r.random)
	if err != nil {
		return nil, err
	}
	m := desiredMachine(set)
	m.Name = name
	m.Finalizers = []string{clusterv1.MachineFinalizer}
	return m, nil
}

// DesiredMachine returns what a MachineSet applies to a Machine that exists: everything that may
// change in place without an update of the host. The name, the references, the version and the
// failure domain stay, and so do the finalizers of others. The UID keeps an apply from creating the
// Machine again.
func DesiredMachine(set *clusterv1.MachineSet, current *clusterv1.Machine) *clusterv1.Machine {
	m := desiredMachine(set)
	m.Name, m.UID = current.Name, current.UID
	m.Finalizers = slices.Clone(current.Finalizers)
	if !slices.Contains(m.Finalizers, clusterv1.MachineFinalizer) {
		m.Finalizers = append(m.Finalizers, clusterv1.MachineFinalizer)
	}
	m.Spec.Bootstrap.ConfigRef = current.Spec.Bootstrap.ConfigRef
	m.Spec.InfrastructureRef = current.Spec.InfrastructureRef
	m.Spec.Version = current.Spec.Version
	m.Spec.FailureDomain = current.Spec.FailureDomain
	return m
}

// desiredMachine is what new and existing Machines have in common.
func desiredMachine(set *clusterv1.MachineSet) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, capi.MachineSetKind)},
			Labels:          machineLabels(set),
			Annotations:     machineAnnotations(set),
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	m.Spec.ClusterName = set.Spec.ClusterName
	// In a MachineSet these refer to templates.
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{}
	return m
}

// machineLabels are the labels of the Machines of a MachineSet, and of their objects.
func machineLabels(set *clusterv1.MachineSet) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, set.Spec.Template.Labels)
	labels[clusterv1.MachineSetNameLabel] = format.MustFormatValue(set.Name)
	if name, ok := set.Labels[clusterv1.MachineDeploymentNameLabel]; ok {
		labels[clusterv1.MachineDeploymentNameLabel] = name
	}
	return labels
}

// machineAnnotations are the annotations of the Machines of a MachineSet, and of their objects. An
// apply of this controller must never set a mark.
func machineAnnotations(set *clusterv1.MachineSet) map[string]string {
	return pool.WithoutMarks(set.Spec.Template.Annotations)
}
