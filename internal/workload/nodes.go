package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Nodes implements port.Nodes.
type Nodes struct {
	management client.Client
	clients    clients
}

var _ port.Nodes = (*Nodes)(nil)

// New returns Nodes. management reads kubeconfig Secrets, Clusters, Machines and MachineDrainRules of the management cluster; it
// should read live, since a cached one would keep all Secrets. now is the clock by which connections grow old.
func New(management client.Client, now func() time.Time) *Nodes {
	return &Nodes{management: management, clients: newKubeconfigClients(management, now)}
}

// Node implements port.Nodes.
func (n *Nodes) Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node {
	_, node, err := n.read(ctx, cluster, name)
	switch {
	case isMissingNode(err):
		return inplace.Node{}
	case err != nil:
		return inplace.Node{Unknown: err.Error()}
	}
	return computeFacts(node)
}

// Get implements port.Nodes. The error of a node that does not exist satisfies apierrors.IsNotFound.
func (n *Nodes) Get(ctx context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error) {
	_, node, err := n.read(ctx, cluster, name)
	return node, err
}

// GetProved is Get, and returns the certificate authorities, in PEM, that the kubeconfig of the
// cluster trusts. If the error is nil, the API server that answered has the key of a certificate
// that one of them signed, and it accepts the kubeconfig's credentials. With an error, the
// authorities are what the kubeconfig names now, without any proof; nil if it is not readable.
func (n *Nodes) GetProved(
	ctx context.Context, cluster types.NamespacedName, name string,
) (node *corev1.Node, authorities []byte, err error) {
	remote, node, err := n.read(ctx, cluster, name)
	if err == nil && isAnonymous(remote.config) {
		err = &unreachableError{cluster: cluster, reason: "its kubeconfig has no credentials"}
	}
	if err == nil {
		return node, remote.config.CAData, nil
	}
	if claimed, unreadable := n.clients.Config(ctx, cluster); unreadable == nil {
		return nil, claimed.CAData, err
	}
	return nil, nil, err
}

// isAnonymous reports whether an API server does not know who asks.
func isAnonymous(config *rest.Config) bool {
	// API servers have no basic authentication: to them, a caller with a user name only is anonymous.
	return config.BearerToken == "" && len(config.CertData) == 0
}

// Uncordon implements port.Nodes.
func (n *Nodes) Uncordon(ctx context.Context, cluster types.NamespacedName, name string) error {
	remote, node, err := n.read(ctx, cluster, name)
	if isMissingNode(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("uncordoning: %w", err)
	}
	if !node.Spec.Unschedulable {
		return nil
	}
	return n.patch(ctx, remote, cluster, node, func(node *corev1.Node) { node.Spec.Unschedulable = false })
}

// missingNodeError is the error of a node that does not exist. A Secret that does not exist is no missingNodeError.
type missingNodeError struct {
	cluster types.NamespacedName
	name    string
	err     error
}

func (e *missingNodeError) Error() string {
	return fmt.Sprintf("Node %s does not exist in Cluster %s", e.name, e.cluster)
}
func (e *missingNodeError) Unwrap() error { return e.err }

func isMissingNode(err error) bool {
	var missing *missingNodeError
	return errors.As(err, &missing)
}

// unreachableError is the error of a cluster that cannot be asked. It hides the kinds of the errors below it: that a Secret was
// not found must not be taken for a node that was not found.
type unreachableError struct {
	cluster types.NamespacedName
	reason  string
	cause   error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("Cluster %s cannot be asked: %s", e.cluster, e.reason)
}

// Cause returns the error below, which tells what a person can do. It is not Unwrap: see above.
func (e *unreachableError) Cause() error { return e.cause }

// newUnreachable returns the error for a request that got no answer: a *ThrottledError if this process did not send it, else an
// *unreachableError.
func newUnreachable(cluster types.NamespacedName, err error) error {
	if throttled, ok := errors.AsType[*ThrottledError](err); ok {
		return &ThrottledError{Cluster: cluster, Limit: throttled.Limit}
	}
	return &unreachableError{cluster: cluster, reason: describe(err), cause: err}
}

func (n *Nodes) read(
	ctx context.Context, cluster types.NamespacedName, name string,
) (*connection, *corev1.Node, error) {
	remote, err := n.clients.Client(ctx, cluster)
	if err != nil {
		return nil, nil, newUnreachable(cluster, err)
	}
	node := &corev1.Node{}
	err = remote.Get(ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil, &missingNodeError{cluster: cluster, name: name, err: err}
	}
	if err == nil && node.Name != name {
		err = &garbledError{problem: "the answer is about another object"}
	}
	if err != nil {
		n.clients.Failed(ctx, cluster, remote, err)
		if isAnswer(err) {
			return nil, nil, &unreachableError{
				cluster: cluster, reason: fmt.Sprintf("reading Node %s: %s", name, describe(err)), cause: err,
			}
		}
		// A missing answer has nothing to do with the node, and reads the same for all of them.
		return nil, nil, newUnreachable(cluster, err)
	}
	return remote, node, nil
}

func (n *Nodes) patch(ctx context.Context, remote client.Client, cluster types.NamespacedName, node *corev1.Node, change func(*corev1.Node)) error {
	changed := node.DeepCopy()
	change(changed)
	if err := remote.Patch(ctx, changed, client.MergeFrom(node)); err != nil {
		n.clients.Failed(ctx, cluster, remote, err)
		return fmt.Errorf("changing Node %s of Cluster %s: %s", node.Name, cluster, describe(err))
	}
	return nil
}

// computeFacts reduces a node to what decides about updates.
func computeFacts(node *corev1.Node) inplace.Node {
	facts := inplace.Node{
		Exists: true, Unschedulable: node.Spec.Unschedulable, NotReady: "the node has no Ready condition",
		ScaleDown: scaleDownOf(node),
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			facts.Ready, facts.ReadySince, facts.NotReady = true, condition.LastTransitionTime.Time, ""
		} else {
			facts.NotReady = fmt.Sprintf("Ready is %s", condition.Status)
			if words := wordsOf(condition); words != "" {
				facts.NotReady += ": " + words
			}
			facts.NotReady = text.Bound(facts.NotReady, maxShownBytes)
		}
	}
	kubelet, err := version.Parse(text.Bound(node.Status.NodeInfo.KubeletVersion, maxNameBytes))
	if err != nil {
		facts.Unknown = fmt.Sprintf("Node %s reports a kubelet version that cannot be understood: %v", node.Name, err)
	}
	facts.Kubelet = kubelet
	return facts
}

func wordsOf(condition corev1.NodeCondition) string {
	var words []string
	for _, word := range []string{condition.Reason, condition.Message} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, ": ")
}
