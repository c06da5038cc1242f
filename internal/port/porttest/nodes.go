package porttest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Nodes is a port.Nodes in memory: a test sets what nodes are like, and how their drains go. It is safe for concurrent use.
type Nodes struct {
	mu          sync.Mutex
	nodes       map[nodeKey]*fakeNode
	unreachable map[types.NamespacedName]string
	failures    map[NodesMethod][]error
	calls       map[NodesMethod]int
}

var _ port.Nodes = (*Nodes)(nil)

// NodesMethod is a method of port.Nodes.
type NodesMethod string

// The methods of port.Nodes.
const (
	NodeMethod     NodesMethod = "Node"
	DrainMethod    NodesMethod = "Drain"
	UncordonMethod NodesMethod = "Uncordon"
	GetMethod      NodesMethod = "Get"

	DisableScaleDownMethod NodesMethod = "DisableScaleDown"
	EnableScaleDownMethod  NodesMethod = "EnableScaleDown"
)

type nodeKey struct {
	cluster types.NamespacedName
	name    string
}

type fakeNode struct {
	facts inplace.Node
	// drains is how many more calls of Drain find pods on the node.
	drains int
	// blockedBy is the name of the PodDisruptionBudget that blocks the drain.
	blockedBy string
}

// NewNodes returns Nodes without any node.
func NewNodes() *Nodes {
	return &Nodes{
		nodes:       map[nodeKey]*fakeNode{},
		unreachable: map[types.NamespacedName]string{},
		failures:    make(map[NodesMethod][]error),
		calls:       make(map[NodesMethod]int),
	}
}

// ReadyNode returns the facts of a node that has been Ready since a time.
func ReadyNode(kubelet string, since time.Time) inplace.Node {
	return inplace.Node{Exists: true, Ready: true, ReadySince: since, Kubelet: version.MustParse(kubelet)}
}

// Set makes a simulated node with these facts, or changes its facts; Exists is set. How its drain goes stays as it was.
func (n *Nodes) Set(cluster types.NamespacedName, name string, facts inplace.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	facts.Exists = true
	n.ensure(cluster, name).facts = facts
}

// Edit changes the facts of a node, which is made where it does not exist.
func (n *Nodes) Edit(cluster types.NamespacedName, name string, edit func(*inplace.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	edit(&n.ensure(cluster, name).facts)
}

// Remove deletes a node.
func (n *Nodes) Remove(cluster types.NamespacedName, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.nodes, nodeKey{cluster, name})
}

// SetDrain says how many calls of Drain find pods on the node; the call after them is done. The default is 0.
func (n *Nodes) SetDrain(cluster types.NamespacedName, name string, calls int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ensure(cluster, name).drains = calls
}

// Block makes a PodDisruptionBudget block the drain of a node. With an empty name it does so no longer.
func (n *Nodes) Block(cluster types.NamespacedName, name, budget string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ensure(cluster, name).blockedBy = budget
}

// SetUnreachable makes a cluster unreachable, for a reason. With an empty reason it is reached again.
func (n *Nodes) SetUnreachable(cluster types.NamespacedName, reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if reason == "" {
		delete(n.unreachable, cluster)
		return
	}
	n.unreachable[cluster] = reason
}

// Fail makes the next calls of a method fail, with one error each. Node has no error; its answer's Unknown holds the words.
func (n *Nodes) Fail(method NodesMethod, errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures[method] = append(n.failures[method], errs...)
}

// Calls counts the calls of every method so far.
func (n *Nodes) Calls() map[NodesMethod]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.calls)
}

// Node implements port.Nodes.
func (n *Nodes) Node(_ context.Context, cluster types.NamespacedName, name string) inplace.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, err := n.call(NodeMethod, cluster, name)
	switch {
	case apierrors.IsNotFound(err):
		return inplace.Node{}
	case err != nil:
		return inplace.Node{Unknown: err.Error()}
	}
	return node.facts
}

// Drain implements port.Nodes.
func (n *Nodes) Drain(_ context.Context, cluster, _ types.NamespacedName, name string) (port.DrainStatus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, err := n.call(DrainMethod, cluster, name)
	if apierrors.IsNotFound(err) {
		return port.DrainStatus{Done: true}, nil
	}
	if err != nil {
		return port.DrainStatus{}, fmt.Errorf("draining Node %s: %w", name, err)
	}
	node.facts.Unschedulable = true
	if node.blockedBy != "" {
		return port.DrainStatus{Message: "Drain not completed yet:\n* Pod default/blocked: cannot evict pod as it would violate the pod's " +
			"disruption budget. The disruption budget " + node.blockedBy + " needs 1 healthy pods and has 1 currently"}, nil
	}
	if node.drains > 0 {
		node.drains--
		return port.DrainStatus{Message: "Drain not completed yet:\n* Pod default/leaving: deletionTimestamp set, but still not removed from the Node"}, nil
	}
	return port.DrainStatus{Done: true}, nil
}

// Uncordon implements port.Nodes.
func (n *Nodes) Uncordon(_ context.Context, cluster types.NamespacedName, name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, err := n.call(UncordonMethod, cluster, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("uncordoning Node %s: %w", name, err)
	}
	node.facts.Unschedulable = false
	return nil
}

// DisableScaleDown implements port.Nodes.
func (n *Nodes) DisableScaleDown(_ context.Context, cluster types.NamespacedName, name string) error {
	return n.changeScaleDown(DisableScaleDownMethod, cluster, name, inplace.ScaleDownAllowed, inplace.ScaleDownByUs)
}

// EnableScaleDown implements port.Nodes.
func (n *Nodes) EnableScaleDown(_ context.Context, cluster types.NamespacedName, name string) error {
	return n.changeScaleDown(EnableScaleDownMethod, cluster, name, inplace.ScaleDownByUs, inplace.ScaleDownAllowed)
}

func (n *Nodes) changeScaleDown(
	method NodesMethod, cluster types.NamespacedName, name string, expected, after inplace.ScaleDown,
) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, err := n.call(method, cluster, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changing Node %s: %w", name, err)
	}
	if node.facts.ScaleDown == expected {
		node.facts.ScaleDown = after
	}
	return nil
}

// Get implements port.Nodes.
func (n *Nodes) Get(_ context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, err := n.call(GetMethod, cluster, name)
	if err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return node.object(name), nil
}

// call counts a call, and returns the node that it is about.
func (n *Nodes) call(method NodesMethod, cluster types.NamespacedName, name string) (*fakeNode, error) {
	n.calls[method]++
	if planned := n.failures[method]; len(planned) > 0 {
		n.failures[method] = planned[1:]
		return nil, planned[0]
	}
	if reason, ok := n.unreachable[cluster]; ok {
		return nil, fmt.Errorf("reaching Cluster %s: %s", cluster, reason)
	}
	node, ok := n.nodes[nodeKey{cluster, name}]
	if !ok || !node.facts.Exists {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return node, nil
}

func (n *Nodes) ensure(cluster types.NamespacedName, name string) *fakeNode {
	key := nodeKey{cluster, name}
	if n.nodes[key] == nil {
		n.nodes[key] = &fakeNode{facts: inplace.Node{Exists: true}}
	}
	return n.nodes[key]
}

// object is the node as its cluster would show it.
func (f *fakeNode) object(name string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Unschedulable: f.facts.Unschedulable, ProviderID: "in-memory://" + name},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: f.facts.Kubelet.String()},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: f.facts.NotReady,
			}},
		},
	}
	if f.facts.Ready {
		node.Status.Conditions[0] = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(f.facts.ReadySince),
		}
	}
	return node
}
