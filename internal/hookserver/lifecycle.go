package hookserver

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The names under which the lifecycle hooks of upgrades are registered.
const (
	BeforeClusterUpgradeHandler      = "before-cluster-upgrade"
	BeforeControlPlaneUpgradeHandler = "before-control-plane-upgrade"
	AfterControlPlaneUpgradeHandler  = "after-control-plane-upgrade"
	BeforeWorkersUpgradeHandler      = "before-workers-upgrade"
	AfterWorkersUpgradeHandler       = "after-workers-upgrade"
	AfterClusterUpgradeHandler       = "after-cluster-upgrade"
)

// Gates tells whether a step of an upgrade may go on. The engine of package gate/gatehooks does.
type Gates interface {
	Ask(ctx context.Context, cluster *clusterv1.Cluster, step gate.Step) (gate.Verdict, error)
}

// lifecycle answers the lifecycle hooks of upgrades. A step that is held gets a success with a time to ask again, which Cluster API
// takes for "not yet"; what is not known holds. A failure is for requests that cannot be understood, or that are not due. It is safe
// for concurrent use.
type lifecycle struct {
	gates    Gates
	outcomes outcomes
	refusals *Refusals
}

func newLifecycle(gates Gates, refusals *Refusals) *lifecycle {
	return &lifecycle{gates: gates, outcomes: newOutcomes(), refusals: refusals}
}

func (l *lifecycle) handlers() []server.ExtensionHandler {
	return []server.ExtensionHandler{
		{Hook: runtimehooksv1.BeforeClusterUpgrade, Name: BeforeClusterUpgradeHandler, HandlerFunc: l.BeforeClusterUpgrade},
		{Hook: runtimehooksv1.BeforeControlPlaneUpgrade, Name: BeforeControlPlaneUpgradeHandler, HandlerFunc: l.BeforeControlPlaneUpgrade},
		{Hook: runtimehooksv1.AfterControlPlaneUpgrade, Name: AfterControlPlaneUpgradeHandler, HandlerFunc: l.AfterControlPlaneUpgrade},
		{Hook: runtimehooksv1.BeforeWorkersUpgrade, Name: BeforeWorkersUpgradeHandler, HandlerFunc: l.BeforeWorkersUpgrade},
		{Hook: runtimehooksv1.AfterWorkersUpgrade, Name: AfterWorkersUpgradeHandler, HandlerFunc: l.AfterWorkersUpgrade},
		{Hook: runtimehooksv1.AfterClusterUpgrade, Name: AfterClusterUpgradeHandler, HandlerFunc: l.AfterClusterUpgrade},
	}
}

// BeforeClusterUpgrade answers the hook of that name.
func (l *lifecycle) BeforeClusterUpgrade(ctx context.Context, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) {
	l.answer(ctx, &request.Cluster, gate.BeforeClusterUpgrade, request.ToKubernetesVersion, &response.CommonRetryResponse)
}

// BeforeControlPlaneUpgrade answers the hook of that name.
func (l *lifecycle) BeforeControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest, response *runtimehooksv1.BeforeControlPlaneUpgradeResponse) {
	l.answer(ctx, &request.Cluster, gate.BeforeControlPlaneUpgrade, request.ToKubernetesVersion, &response.CommonRetryResponse)
}

// AfterControlPlaneUpgrade answers the hook of that name.
func (l *lifecycle) AfterControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.AfterControlPlaneUpgradeRequest, response *runtimehooksv1.AfterControlPlaneUpgradeResponse) {
	l.answer(ctx, &request.Cluster, gate.AfterControlPlaneUpgrade, request.KubernetesVersion, &response.CommonRetryResponse)
}

// BeforeWorkersUpgrade answers the hook of that name.
func (l *lifecycle) BeforeWorkersUpgrade(ctx context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest, response *runtimehooksv1.BeforeWorkersUpgradeResponse) {
	l.answer(ctx, &request.Cluster, gate.BeforeWorkersUpgrade, request.ToKubernetesVersion, &response.CommonRetryResponse)
}

// AfterWorkersUpgrade answers the hook of that name.
func (l *lifecycle) AfterWorkersUpgrade(ctx context.Context, request *runtimehooksv1.AfterWorkersUpgradeRequest, response *runtimehooksv1.AfterWorkersUpgradeResponse) {
	l.answer(ctx, &request.Cluster, gate.AfterWorkersUpgrade, request.KubernetesVersion, &response.CommonRetryResponse)
}

// AfterClusterUpgrade answers the hook of that name.
func (l *lifecycle) AfterClusterUpgrade(ctx context.Context, request *runtimehooksv1.AfterClusterUpgradeRequest, response *runtimehooksv1.AfterClusterUpgradeResponse) {
	l.answer(ctx, &request.Cluster, gate.AfterClusterUpgrade, request.KubernetesVersion, &response.CommonRetryResponse)
}

// errNotDue is the answer to a hook that is not due. It is the same for all Clusters, also for those that do not exist: who
// forges a call must learn nothing from the answer. The log says why.
var errNotDue = errors.New("the Cluster does not show that this hook is due")

// answer decodes what all these requests have in common, asks, and encodes the verdict.
func (l *lifecycle) answer(ctx context.Context, cluster *clusterv1.Cluster, hook gate.Hook, kubernetesVersion string, response *runtimehooksv1.CommonRetryResponse) {
	parsed, err := version.Parse(kubernetesVersion)
	if err != nil {
		err = fmt.Errorf("the request's version: %w", err)
		l.log(ctx, cluster, hook, kubernetesVersion, "", err)
		fail(&response.CommonResponse, err)
		return
	}
	step := gate.Step{Hook: hook, Version: parsed}
	verdict, err := l.gates.Ask(ctx, cluster, step)
	message := verdict.Message(step)
	l.log(ctx, cluster, hook, kubernetesVersion, message, err)
	l.refusals.report(ctx, string(hook), err)
	if _, notDue := errors.AsType[*gate.NotDueError](err); notDue {
		err = errNotDue
	}
	if err != nil {
		fail(&response.CommonResponse, err)
		return
	}
	succeed(&response.CommonResponse, message)
	if len(verdict.Findings) > 0 {
		response.RetryAfterSeconds = encodeRetry(verdict.RetryAfter)
	}
}

// log reports an answer when it differs from the last one about the same cluster: Cluster API asks again and again.
func (l *lifecycle) log(ctx context.Context, cluster *clusterv1.Cluster, hook gate.Hook, kubernetesVersion, held string, err error) {
	key := client.ObjectKeyFromObject(cluster)
	outcome := fmt.Sprintf("%s %s %s %v", hook, boundMessage(kubernetesVersion), held, err)
	logger, isNew := l.outcomes.logger(ctx, key, outcome)
	if !isNew {
		return
	}
	logger = logger.WithValues("cluster", boundMessage(key.String()), "hook", string(hook), "version", boundMessage(kubernetesVersion))
	switch {
	case err != nil:
		logger.Info("Refused to answer about a step of an upgrade", "message", boundMessage(err.Error()))
	case held != "":
		logger.Info("Gates hold a step of an upgrade", "message", boundMessage(held))
	default:
		logger.Info("A step of an upgrade may continue")
	}
}
