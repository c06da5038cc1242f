package topology

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/patches"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectOptions is what Objects need.
type ObjectOptions struct {
	// Client reads from a cache, unstructured objects too, and writes. Its cache must keep managed fields.
	Client client.Client
	// APIReader reads from the API server: it prevents a second MachineDeployment for a topology name that the cache does not show yet, and the
	// deletion of a template whose use the cache does not show yet.
	APIReader client.Reader
	// Runtime calls the extensions of external patches. It may be nil while the feature gate RuntimeSDK is off.
	Runtime runtimeclient.Client
	// Recorder receives Events on the Cluster.
	Recorder events.EventRecorder
	// Now is the clock by which a remembered "nothing to change" expires.
	Now func() time.Time
}

// Objects reads, computes and writes the objects of managed topologies. It is safe for concurrent use, for one Cluster by one caller
// at a time.
type Objects struct {
	client    client.Client
	apiReader client.Reader
	recorder  events.EventRecorder
	generator desiredstate.Generator
	patches   patches.Engine
	memory    *memory
}

// New returns Objects that remember nothing yet.
func New(options ObjectOptions) (*Objects, error) {
	if options.Client == nil || options.APIReader == nil || options.Recorder == nil || options.Now == nil {
		return nil, errors.New("topology: client, API reader, recorder and clock are required")
	}
	// The caches of hook answers and upgrade plans are for what the settled view never asks.
	generator, err := desiredstate.NewGenerator(settledClient{options.Client}, noWorkloadCluster{}, options.Runtime, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making the generator of desired objects: %w", err)
	}
	return &Objects{
		client: options.Client, apiReader: options.APIReader, recorder: options.Recorder,
		generator: generator, patches: patches.NewEngine(options.Client, options.Runtime),
		memory: &memory{now: options.Now},
	}, nil
}

// Forget drops what is remembered of a Cluster's objects. The caller says so when the Cluster is gone.
func (o *Objects) Forget(cluster types.NamespacedName) { o.memory.forget(cluster) }

// Versions says which Kubernetes version every object of a topology has in the desired state.
type Versions struct {
	// ControlPlane is the version of the control plane object.
	ControlPlane string
	// MachineDeployments and MachinePools have an entry for every group in Cluster.spec.topology.workers, by its name there.
	MachineDeployments, MachinePools map[string]Worker
}

// Worker is the version of one group of workers.
type Worker struct {
	Version string
	// Hold leaves an existing object and its templates alone, so that a pending upgrade and other changes are one rollout; its MachineHealthCheck is
	// still kept. An object that does not exist is not created.
	Hold bool
}
