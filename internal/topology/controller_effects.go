package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var _ chain.Effects = (*effects)(nil)

// effects acts on one Cluster, in one run.
type effects struct {
	run *run
	// applied is what Apply has brought about in this run already, changed whether that took a request.
	applied string
	changed bool
}

// Apply computes the desired objects and writes what differs. Computing them is the dear part; it is left out where neither what they are made
// from nor what is there has changed since the last time that there was nothing to write.
func (e *effects) Apply(ctx context.Context, objects chain.Objects, stamp version.Version) error {
	r := e.run
	versions := computeVersions(r.cluster, objects)
	fingerprint, err := fingerprintInputs(r.blueprint, r.current, versions, objects.ControlPlane.Hold, stamp)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(r.cluster)
	if settled, _ := r.settled.Get(key, r.Now()); settled == fingerprint || e.applied == fingerprint {
		return nil
	}
	desired, err := r.objects.ComputeDesired(ctx, r.blueprint, r.current, versions)
	if err != nil {
		return err
	}
	options := ApplyOptions{
		HoldControlPlane:          objects.ControlPlane.Hold,
		InfrastructureAnnotations: map[string]string{v1alpha1.EngineAnnotation: v1alpha1.EngineManager},
	}
	if !stamp.IsZero() {
		options.ControlPlaneAnnotations = map[string]string{v1alpha1.ChainStepAnnotation: stamp.String()}
	}
	result, err := r.objects.Apply(ctx, r.blueprint, r.current, desired, versions, options)
	for _, change := range result.Changes {
		e.changed = true
		r.awaitCache(change)
	}
	if err := errors.Join(err, r.readOwnWrite(ctx, result)); err != nil {
		return err
	}
	e.applied = fingerprint
	if len(result.Changes) == 0 && !hasExternalPatches(r.class) {
		r.settled.Put(key, fingerprint, r.Now(), settledFor)
	}
	return nil
}

// readOwnWrite brings the Cluster up to date where the apply has written it, as it does when its objects are new: a record that follows
// would otherwise be taken for one on an older state.
func (r *run) readOwnWrite(ctx context.Context, result Result) error {
	if !slices.ContainsFunc(result.Changes, func(c Change) bool { return c.Kind == clusterv1.GroupVersion.WithKind("Cluster") }) {
		return nil
	}
	live := &clusterv1.Cluster{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(r.cluster), live); err != nil {
		return fmt.Errorf("getting Cluster %s: %w", client.ObjectKeyFromObject(r.cluster), err)
	}
	r.cluster.ObjectMeta = live.ObjectMeta
	r.cluster.Spec.InfrastructureRef, r.cluster.Spec.ControlPlaneRef = live.Spec.InfrastructureRef, live.Spec.ControlPlaneRef
	return nil
}

// awaitCache keeps the Cluster from being decided on before the cache shows what has been written.
func (r *run) awaitCache(change Change) {
	if change.ResourceVersion == "" {
		return
	}
	kind := capicontroller.GroupVersionKindType{GroupVersionKind: change.Kind, Type: capicontroller.ObjectTypeUnstructured}
	if change.Kind.Group == clusterv1.GroupVersion.Group {
		kind.Type = capicontroller.ObjectTypeStructured
	}
	r.controller.DeferNextReconcileUntilCacheUpToDate(r.cluster, kind, change.ResourceVersion)
}

// Record writes annotations, unless somebody has changed the Cluster since it was read. Controllers
// write its status all the time, on which no record depends: a conflict with one of those is none.
// Otherwise a hook that has let the Cluster pass would be called again for each.
func (e *effects) Record(ctx context.Context, recorded chain.Recorded) error {
	r := e.run
	annotations, err := snapshot.WriteRecorded(r.cluster.Annotations, recorded)
	if err != nil {
		return err
	}
	written, err := r.patchAnnotations(ctx, annotations)
	for range recordRetries {
		if !apierrors.IsConflict(err) || !r.isUnchanged(ctx) {
			break
		}
		written, err = r.patchAnnotations(ctx, annotations)
	}
	if err == nil {
		err = record.CheckStored(written.Annotations, changedAnnotations(r.cluster.Annotations, annotations))
	}
	if err != nil {
		return fmt.Errorf("patching Cluster %s: %w", client.ObjectKeyFromObject(r.cluster), err)
	}
	// Both carry what was written, so that neither the next record nor the status takes it back.
	r.cluster.Annotations, r.cluster.ResourceVersion = written.Annotations, written.ResourceVersion
	if !r.state.Deleting {
		r.controller.DeferNextReconcileUntilCacheUpToDate(r.cluster, capicontroller.StructuredObject(clusterv1.GroupVersion, "Cluster"), written.ResourceVersion)
	}
	return nil
}

// changedAnnotations returns what a patch from before to after sets; nil removes.
func changedAnnotations(before, after map[string]string) map[string]*string {
	changed := map[string]*string{}
	for key := range before {
		if _, kept := after[key]; !kept {
			changed[key] = nil
		}
	}
	for key, value := range after {
		if old, was := before[key]; !was || old != value {
			changed[key] = &value
		}
	}
	return changed
}

// recordRetries bounds how often a status may be written between the reading of a Cluster and the patch that follows it.
const recordRetries = 5

func (r *run) patchAnnotations(ctx context.Context, annotations map[string]string) (*clusterv1.Cluster, error) {
	written := r.cluster.DeepCopy()
	written.Annotations = annotations
	return written, r.Client.Patch(ctx, written, client.MergeFromWithOptions(r.cluster, client.MergeFromWithOptimisticLock{}))
}

// isUnchanged reports whether nothing that a decision depends on has changed since the Cluster was
// read; what was read then gets the present resourceVersion. The status may have changed, and the
// defaults of variables may have been written: the API server gives them to a Cluster that is older
// than its class with the next write of anybody, and readClass has set them already.
func (r *run) isUnchanged(ctx context.Context) bool {
	live := &clusterv1.Cluster{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(r.cluster), live); err != nil {
		return false
	}
	now, read := readMetadata(live), readMetadata(r.cluster)
	if equality.Semantic.DeepEqual(live.Spec, r.cluster.Spec) {
		now.Generation = read.Generation
	}
	if live.UID != r.cluster.UID || !equality.Semantic.DeepEqual(now, read) {
		return false
	}
	r.cluster.ResourceVersion = live.ResourceVersion
	return true
}

// computeVersions gives every object of the topology its version. A group that the decision does not know, because the Cluster has changed since
// it was read, cannot be: both are of one reading.
func computeVersions(cluster *clusterv1.Cluster, objects chain.Objects) Versions {
	versions := Versions{
		ControlPlane:       objects.ControlPlane.Version.String(),
		MachineDeployments: map[string]Worker{}, MachinePools: map[string]Worker{},
	}
	deployments := cluster.Spec.Topology.Workers.MachineDeployments
	for i, object := range objects.Groups {
		worker := Worker{Version: object.Version.String(), Hold: object.Hold}
		if object.Kind == plan.MachineDeployment {
			versions.MachineDeployments[deployments[i].Name] = worker
			continue
		}
		versions.MachinePools[cluster.Spec.Topology.Workers.MachinePools[i-len(deployments)].Name] = worker
	}
	return versions
}

func hasExternalPatches(class *clusterv1.ClusterClass) bool {
	for _, p := range class.Spec.Patches {
		if p.External != nil {
			return true
		}
	}
	return false
}
