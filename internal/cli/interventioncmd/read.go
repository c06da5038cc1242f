package interventioncmd

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/intervention"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// reader reads what a verb is decided on.
type reader struct {
	management.Cluster
	verb intervention.Verb
	kind intervention.Kind
	key  types.NamespacedName
}

// read reads the object, and what else is known of its Cluster. Of a Machine only the Machine must
// be readable, and to pause or resume only the object itself.
func (r reader) read(ctx context.Context, now time.Time) (intervention.Facts, error) {
	t, cluster, err := r.target(ctx)
	if err != nil {
		return intervention.Facts{}, err
	}
	f := intervention.Facts{Facts: status.Facts{Prefix: r.Prefix}, Target: t, Now: now}
	f.Cluster = cluster
	if machine, ok := t.Object.(*clusterv1.Machine); ok {
		f.Machines = []*clusterv1.Machine{machine}
		f.Cluster, err = r.clusterIfReadable(ctx, t.Cluster)
		return f, err
	}
	objects, err := r.AllObjects(ctx, types.NamespacedName{Namespace: r.key.Namespace, Name: t.Cluster})
	if err != nil {
		mayLack := r.verb == intervention.Pause || r.verb == intervention.Resume
		if ignored := management.IgnoreForbidden(management.IgnoreMissing(err)); mayLack && ignored == nil {
			return f, nil
		}
		return f, err
	}
	f.Objects = objects
	f.Target.Object = latest(f, t)
	f.Policies, err = r.UpdatePolicies(ctx, r.key.Namespace)
	return f, management.IgnoreForbidden(err)
}

// latest returns the target as it was read last, with all of its Cluster.
func latest(f intervention.Facts, t intervention.Target) client.Object {
	switch t.Kind {
	case intervention.Cluster:
		return f.Cluster
	case intervention.ControlPlane:
		if f.ControlPlane != nil {
			return f.ControlPlane
		}
	case intervention.MachineDeployment:
		for _, md := range f.MachineDeployments {
			if md.Name == t.Object.GetName() {
				return md
			}
		}
	case intervention.Machine:
	}
	object, _ := t.Object.(client.Object)
	return object
}

// target reads the object. cluster is nil unless it was read with it.
func (r reader) target(ctx context.Context) (intervention.Target, *clusterv1.Cluster, error) {
	t := intervention.Target{Kind: r.kind}
	switch r.kind {
	case intervention.ControlPlane:
		cluster, object, err := cli.FindControlPlane(ctx, r.Cluster, r.key)
		if err != nil {
			return t, nil, err
		}
		t.GVK, t.Object, t.Cluster = object.GroupVersionKind(), object, cluster.Name
		return t, cluster, nil
	case intervention.Cluster:
		cluster := &clusterv1.Cluster{}
		t.GVK, t.Object, t.Cluster = clusterv1.GroupVersion.WithKind("Cluster"), cluster, r.key.Name
		return t, cluster, r.object(ctx, t.GVK.Kind, cluster, r.clusters)
	case intervention.MachineDeployment:
		md := &clusterv1.MachineDeployment{}
		err := r.object(ctx, capi.MachineDeploymentKind.Kind, md, r.machineDeployments)
		t.GVK, t.Object, t.Cluster = capi.MachineDeploymentKind, md, md.Spec.ClusterName
		return t, nil, err
	case intervention.Machine:
		machine := &clusterv1.Machine{}
		t.GVK = clusterv1.GroupVersion.WithKind("Machine")
		err := r.object(ctx, t.GVK.Kind, machine, r.machines)
		t.Object, t.Cluster = machine, machine.Spec.ClusterName
		return t, nil, err
	}
	return t, nil, cli.InputErrorf("KIND", "it is unknown: %s", r.kind)
}

// object reads an object. If it does not exist, the error has the nearest of the names that list
// returns.
func (r reader) object(
	ctx context.Context, kind string, into client.Object, list func(context.Context) ([]string, error),
) error {
	err := r.Object(ctx, kind, r.key, into)
	if !management.IsGone(err) {
		return err
	}
	names, listErr := list(ctx)
	if listErr != nil {
		return err
	}
	return cli.InputErrorf("NAME", "there is no %s %s%s. Fix: correct the name, or choose the namespace with -n",
		kind, r.key, text.DescribeNearest(r.key.Name, names))
}

func (r reader) clusters(ctx context.Context) ([]string, error) {
	found, err := management.List[client.Object, clusterv1.ClusterList](
		ctx, r.Cluster, "Clusters", management.InNamespace(r.key.Namespace))
	return namesOf(found), err
}

func (r reader) machineDeployments(ctx context.Context) ([]string, error) {
	found, err := management.List[client.Object, clusterv1.MachineDeploymentList](
		ctx, r.Cluster, "MachineDeployments", management.InNamespace(r.key.Namespace))
	return namesOf(found), err
}

func (r reader) machines(ctx context.Context) ([]string, error) {
	found, err := management.List[client.Object, clusterv1.MachineList](
		ctx, r.Cluster, "Machines", management.InNamespace(r.key.Namespace))
	return namesOf(found), err
}

func namesOf(objects []client.Object) []string {
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

// clusterIfReadable reads a Cluster; nil if it is missing or may not be read.
func (r reader) clusterIfReadable(ctx context.Context, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := r.Object(ctx, "Cluster", types.NamespacedName{Namespace: r.key.Namespace, Name: name}, cluster)
	if err == nil {
		return cluster, nil
	}
	return nil, management.IgnoreForbidden(management.IgnoreMissing(err))
}
