package machineset

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// syncedFor is how long a sync that changed nothing is not repeated. It is shorter than
// [objects.Lifetime], so that the Applier remembers the intents of a Machine at rest.
const syncedFor = objects.Lifetime / 2

// versions are those of a Machine and its objects in the cache.
type versions struct{ machine, infrastructure, bootstrap objectVersion }

// objectVersion is the version of an object, as an API version shows it. The zero value is that of
// an object that cannot be read.
type objectVersion struct {
	apiVersion string
	keyed.Version
}

// synced is what the sync of a Machine depends on: what the MachineSet says, and what is there.
type synced struct {
	wanted objects.Digest
	found  versions
}

// syncStates finds the Machines that a sync would not change. A sync computes several hashes of
// each object, and each change of one Machine causes a run for all of the group.
type syncStates struct {
	*Run
	wanted objects.Digest
	// apiVersions are by kind.
	apiVersions map[schema.GroupKind]string
}

func (r *Run) newSyncStates() (syncStates, error) {
	wanted, err := objects.DigestOf(desiredMachine(r.Set))
	//nolint:wrapcheck // It names the type.
	return syncStates{r, wanted, map[schema.GroupKind]string{}}, err
}

// read returns the versions in the cache.
func (s syncStates) read(ctx context.Context, m *clusterv1.Machine) versions {
	return versions{
		machine:        objectVersion{Version: keyed.VersionOf(m)},
		infrastructure: s.version(ctx, m.Namespace, m.Spec.InfrastructureRef),
		bootstrap:      s.version(ctx, m.Namespace, m.Spec.Bootstrap.ConfigRef),
	}
}

func (s syncStates) version(
	ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference,
) objectVersion {
	kind := ref.GroupKind()
	apiVersion, ok := s.apiVersions[kind]
	if !ok && ref.IsDefined() {
		apiVersion, _ = contract.FetchAPIVersion(ctx, s.Client, kind) // The sync reports an error.
		s.apiVersions[kind] = apiVersion
	}
	if apiVersion == "" {
		return objectVersion{}
	}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(ref.Kind)
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	// Nothing is changed in the object, which is the cache's own.
	if err := s.Client.Get(ctx, key, object, client.UnsafeDisableDeepCopy); err != nil {
		return objectVersion{}
	}
	return versionOf(object)
}

func versionOf(o *unstructured.Unstructured) objectVersion {
	return objectVersion{apiVersion: o.GetAPIVersion(), Version: keyed.VersionOf(o)}
}

// isSynced reports whether a sync changed nothing of what is there.
func (s syncStates) isSynced(m *clusterv1.Machine, found versions) bool {
	known, ok := s.synced.Get(m.UID, s.Now())
	return ok && known == synced{s.wanted, found}
}

// remember records that a sync changed nothing.
func (s syncStates) remember(m *clusterv1.Machine, found versions) {
	s.synced.Put(m.UID, synced{s.wanted, found}, s.Now(), syncedFor)
}
