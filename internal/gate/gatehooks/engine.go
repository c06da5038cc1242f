package gatehooks

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/loglimit"
	"github.com/windlass-dev/windlass/internal/shares"
)

const (
	// answerTimeout bounds an answer: Cluster API waits for ten seconds.
	answerTimeout = 8 * time.Second
	// factsTimeout leaves time to record what is found.
	factsTimeout = 6 * time.Second
	// maxLooking is how many checks are made at once, and maxLookingInNamespace is how many of these
	// are for Clusters of one namespace: a tenant whose API servers are slow delays no other. More
	// wait, and are not known if that takes too long.
	maxLooking, maxLookingInNamespace = 24, 8
)

// Workload reads facts of workload clusters. Implementations are safe for concurrent use. Errors are in words that stay the same
// while their cause does.
type Workload interface {
	// Nodes returns the Nodes of a cluster.
	Nodes(ctx context.Context, cluster types.NamespacedName) ([]gate.Node, error)
	// DeprecatedAPIs returns the APIs in use that a later minor removes.
	DeprecatedAPIs(ctx context.Context, cluster types.NamespacedName) ([]gate.API, error)
	// Budgets returns the PodDisruptionBudgets of a cluster.
	Budgets(ctx context.Context, cluster types.NamespacedName) ([]gate.Budget, error)
}

// Options are what an Engine works with.
type Options struct {
	// Client lists UpgradeGates and Clusters, from a cache, and writes the status of UpgradeGates.
	Client client.Client
	// Live reads Clusters, UpgradeGates and control plane objects from the API server. Cluster API writes which hooks are
	// pending just before it calls the next one, so a cache is too old.
	Live client.Reader
	// Mapper finds the API version of a control plane's kind.
	Mapper meta.RESTMapper
	// Workload reads facts of workload clusters.
	Workload Workload
	// Now is the clock.
	Now func() time.Time
}

// Engine answers lifecycle hooks. It is safe for concurrent use.
type Engine struct {
	Options

	looking *shares.Shares
	lines   *loglimit.Lines
	parsed  gate.Store
}

// maxLines and maxLinesEach bound the lines a minute of a kind: of all, and about one namespace.
const maxLines, maxLinesEach = 30, 5

// New returns an Engine.
func New(o Options) *Engine {
	return &Engine{
		Options: o, looking: shares.New(maxLooking, maxLookingInNamespace),
		lines: loglimit.New(o.Now, maxLines, maxLinesEach),
	}
}

// Ask returns whether a step of a Cluster's upgrade may go on. It answers within answerTimeout. The request's Cluster only names
// one, by namespace, name and UID; all that counts is read from the live Cluster. What cannot be found out holds the step, and is
// part of the verdict.
//
// The error is a *gate.NotDueError if the live Cluster does not show that the hook is due; then nothing else was looked at, and
// nothing is recorded. Other errors are those of reading the objects, and that approvals cannot be dropped at the end of an
// upgrade, which would hold for another. Other failures to write the status of gates are logged: no answer depends on it, and
// it is written with the next question.
func (e *Engine) Ask(ctx context.Context, request *clusterv1.Cluster, step gate.Step) (gate.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	cluster, err := e.readCluster(ctx, request, step)
	if err != nil {
		return gate.Verdict{}, err
	}
	var all v1alpha1.UpgradeGateList
	if err := e.Client.List(ctx, &all, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return gate.Verdict{}, fmt.Errorf("listing the UpgradeGates of namespace %q: %w", cluster.Namespace, err)
	}
	if len(all.Items) == 0 {
		return gate.Verdict{}, nil
	}
	upgrade, err := e.readUpgrade(ctx, cluster)
	if err != nil {
		return gate.Verdict{}, err
	}
	due, why := upgrade.Due(step)
	if due == gate.NotDue {
		return gate.Verdict{}, &gate.NotDueError{Step: step, Why: why}
	}
	c := gate.Cluster{Namespace: cluster.Namespace, Name: cluster.Name, UID: string(cluster.UID), Labels: cluster.Labels}
	gates, now := e.parsed.Select(all.Items, c, step), e.Now()
	facts := e.readFacts(ctx, cluster, gate.Needs(gates, now))
	verdict := gate.Decide(step, gates, facts, now)
	if due == gate.MaybeDue {
		return verdict, nil
	}
	if err := e.record(ctx, all.Items, asked{c, step, verdict}); err != nil {
		if ends(step, verdict) {
			return gate.Verdict{}, fmt.Errorf("dropping the approvals of an upgrade at its end: %w", err)
		}
		e.lines.Limit(log.FromContext(ctx), cluster.Namespace).Error(err, "Which Clusters wait at gates is not recorded")
	}
	return verdict, nil
}
