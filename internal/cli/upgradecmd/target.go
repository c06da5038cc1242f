package upgradecmd

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
)

// kind is what windlass upgrade can be asked for, as it is written there.
type kind string

const (
	kindMachine           kind = "machine"
	kindMachineDeployment kind = "machinedeployment"
	kindControlPlane      kind = "controlplane"
)

// target is the object that is asked to be upgraded.
type target struct {
	kind kind
	// object has the kind and name of the object, and nothing else that is used.
	object client.Object
	// name is the object's kind, for people.
	name    string
	key     types.NamespacedName
	cluster *clusterv1.Cluster
}

func (t target) String() string { return t.name + " " + t.key.String() }

// command is how to ask something else of the same object.
func (t target) command(flag string) string {
	return fmt.Sprintf("windlass upgrade %s %s -n %s %s", t.kind, t.key.Name, t.key.Namespace, flag)
}

// findTarget finds the object of that name, and its Cluster.
func findTarget(ctx context.Context, m management.Cluster, kind kind, key types.NamespacedName) (target, error) {
	t := target{kind: kind, key: key}
	switch kind {
	case kindMachine:
		t.object, t.name = &clusterv1.Machine{}, "Machine"
	case kindMachineDeployment:
		t.object, t.name = &clusterv1.MachineDeployment{}, "MachineDeployment"
	case kindControlPlane:
		return findControlPlane(ctx, m, key)
	}
	if err := m.Object(ctx, t.name, key, t.object); err != nil {
		return target{}, err
	}
	cluster := ""
	switch o := t.object.(type) {
	case *clusterv1.Machine:
		cluster = o.Spec.ClusterName
	case *clusterv1.MachineDeployment:
		cluster = o.Spec.ClusterName
	}
	t.cluster = &clusterv1.Cluster{}
	return t, m.Object(ctx, "Cluster", types.NamespacedName{Namespace: key.Namespace, Name: cluster}, t.cluster)
}

// findControlPlane finds a control plane by the name of its Cluster, or else by its own.
func findControlPlane(ctx context.Context, m management.Cluster, key types.NamespacedName) (target, error) {
	cluster, object, err := cli.FindControlPlane(ctx, m, key)
	if err != nil {
		return target{}, err
	}
	return target{kind: kindControlPlane, object: object, name: object.GetKind(), key: client.ObjectKeyFromObject(object), cluster: cluster}, nil
}

// reading is how an upgrade stands: the object as it was read, its machines where it is a group, and what follows from them.
type reading struct {
	object   client.Object
	machines []*clusterv1.Machine
	upgrades *status.InPlaceUpgrades
	// asking is what stands on the object itself.
	asking status.Asking
	// Problem says why what is recorded on the object cannot be read; empty where it can.
	problem string
}

// read reads the object, and its machines where it is a group. Only Machines of the group are looked at.
func (t target) read(ctx context.Context, m management.Cluster, now time.Time) (reading, error) {
	object, ok := t.object.DeepCopyObject().(client.Object)
	if !ok {
		return reading{}, fmt.Errorf("%T is no object of the API", t.object)
	}
	if err := m.Object(ctx, t.name, t.key, object); err != nil {
		return reading{}, err
	}
	v := reading{object: object}
	f := status.Facts{Objects: snapshot.Objects{Cluster: t.cluster}, Prefix: m.Prefix}
	switch o := object.(type) {
	case *clusterv1.Machine:
		v.machines = []*clusterv1.Machine{o}
	case *clusterv1.MachineDeployment:
		f.MachineDeployments = []*clusterv1.MachineDeployment{o}
	case *unstructured.Unstructured:
		f.ControlPlane = o
	}
	if t.kind != kindMachine {
		all, err := m.Machines(ctx, client.ObjectKeyFromObject(t.cluster))
		if err != nil {
			return reading{}, err
		}
		for _, machine := range all {
			own, _, err := contract.FetchOwner(ctx, m, machine)
			if management.IgnoreForbidden(err) != nil {
				return reading{}, fmt.Errorf("finding the group of Machine %s: %w", machine.Name, err)
			}
			if capi.Belongs(machine, own, t.owner()) {
				v.machines = append(v.machines, machine)
			}
		}
	}
	f.Machines = v.machines
	var problems []status.Problem
	v.upgrades, problems = status.ComputeInPlace(f, now)
	v.asking, v.problem = v.find(t), t.findProblem(problems)
	return v, nil
}

// owner returns the object as the owner of a group's machines.
func (t target) owner() capi.Owner {
	if t.kind == kindControlPlane {
		return capi.Owner{GroupVersionKind: t.object.GetObjectKind().GroupVersionKind(), NamespacedName: t.key}
	}
	return capi.MachineDeployment(t.key.Namespace, t.key.Name)
}

// findProblem returns what is wrong with the object itself.
func (t target) findProblem(problems []status.Problem) string {
	for _, p := range problems {
		if p.Kind == t.name && p.Name == t.key.Name {
			return p.Message
		}
	}
	return ""
}

func (v reading) find(t target) status.Asking {
	switch {
	case v.upgrades == nil:
	case t.kind == kindMachine && len(v.upgrades.Machines) > 0:
		return v.upgrades.Machines[0].Asking
	case t.kind != kindMachine && len(v.upgrades.Groups) > 0:
		return v.upgrades.Groups[0].Asking
	}
	return status.Asking{State: status.UpgradeIdle}
}

// quiet returns what need not be shown, because it is there before anything has happened: Machines that nothing is asked of.
func (v reading) quiet() *status.InPlaceUpgrades {
	if v.upgrades == nil {
		return nil
	}
	quiet := &status.InPlaceUpgrades{}
	for _, m := range v.upgrades.Machines {
		if !m.State.IsOpen() {
			quiet.Machines = append(quiet.Machines, m)
		}
	}
	return quiet
}
