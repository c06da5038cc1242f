package port

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// Updater changes running machines. It speaks the nouns of Cluster API's hooks, so that an extension written for Cluster API
// is an Updater as it is. Implementations are safe for concurrent use.
type Updater interface {
	// CanUpdateMachine returns patches to the current objects: how they look once the updater has run. It has no effect.
	CanUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error)
	// CanUpdateMachineSet is CanUpdateMachine for all machines of a MachineSet.
	CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error)
	// CanBegin tells whether UpdateMachine with the same request could begin now. It is asked before the
	// node is drained for the update. It has no effect on the machine. An updater behind Cluster API's
	// hooks has answered with what it covers: it makes no request, and says yes.
	CanBegin(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Readiness
	// UpdateMachine starts to bring a machine to its desired state, or asks how that goes on. The desired Machine carries the
	// annotation windlass.dev/operation-id; asking again with the same id never does the work twice. Errors of the transport
	// are Answers with the outcome Unknown: it cannot be known whether the updater works.
	UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer
	// Check returns nil if the updater can be asked.
	Check(ctx context.Context) error
}

// Chooser is an Updater that chooses which machines of a group begin next. Implementations are safe for concurrent use.
type Chooser interface {
	Updater
	// Choose returns which of the machines may begin now. It has no effect.
	Choose(ctx context.Context, c Candidates) (Choice, error)
}

// Candidates are machines of one group that could begin.
type Candidates struct {
	Cluster types.NamespacedName
	// Machines are sorted; there is at least one.
	Machines []types.NamespacedName
	// Free is how many of them may begin now; at least 1.
	Free int
	// Deadline is when one of them begins whatever the answer; zero while a machine of the group is updated.
	Deadline time.Time
}

// Choice is an answer to Candidates.
type Choice struct {
	// Machines may begin now; sorted, each one of the candidates.
	Machines []types.NamespacedName
	// Reason says why none may, for people.
	Reason string
}

// Taker is an Updater that takes all machines of a MachineSet over, and writes their objects itself.
// Implementations are safe for concurrent use.
type Taker interface {
	Updater
	// Take hands the machines over. An operation that was accepted before is accepted again. declined
	// says why the updater does not take them now; empty if it does.
	Take(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, t Taking) (declined string, err error)
	// Stop ends an operation, for a reason. declined says why the updater does not stop; empty if nothing
	// of the operation runs any longer.
	Stop(ctx context.Context, set *clusterv1.MachineSet, operation, reason string) (declined string, err error)
}

// Taking is a hand-over of the machines of a MachineSet.
type Taking struct {
	Operation string
	// AtOnce, First and Stay are the budget of the protocol.
	AtOnce, First, Stay int32
}

// Nodes reads and changes the nodes of workload clusters. Implementations are safe for concurrent use.
type Nodes interface {
	// Node looks a node up. That the node does not exist, or that the cluster cannot be reached, is part of the answer.
	Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node
	// Drain cordons a node, if it is not, and evicts its pods, by the MachineDrainRules of the management cluster. It returns
	// at once; call it again until it is done.
	Drain(ctx context.Context, cluster, machine types.NamespacedName, node string) (DrainStatus, error)
	// Uncordon makes a node schedulable again. A node that does not exist is no error.
	Uncordon(ctx context.Context, cluster types.NamespacedName, node string) error
	// DisableScaleDown keeps the cluster autoscaler from removing a node, unless the node says already whether it
	// may. EnableScaleDown takes back what DisableScaleDown did. A node that does not exist is no error.
	DisableScaleDown(ctx context.Context, cluster types.NamespacedName, node string) error
	EnableScaleDown(ctx context.Context, cluster types.NamespacedName, node string) error
	// Get reads a whole node.
	Get(ctx context.Context, cluster types.NamespacedName, node string) (*corev1.Node, error)
}

// DrainStatus is how far a drain has come.
type DrainStatus struct {
	Done bool
	// Message says what is waited for, and which PodDisruptionBudget blocks by name.
	Message string
}
