package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// message is one hook as it is called.
type message struct {
	hook     runtimecatalog.Hook
	request  runtimehooksv1.RequestObject
	response runtimehooksv1.ResponseObject
}

// Call calls all extensions that are registered for a hook.
func (e *effects) Call(ctx context.Context, call chain.CallHook, d chain.Decision) (chain.Reply, error) {
	r := e.run
	m, err := computeMessage(r.cluster, r.state, call, d)
	if err != nil {
		return chain.Reply{}, err
	}
	registered, err := r.Runtime.GetAllExtensions(ctx, m.hook, r.cluster)
	if err != nil {
		return chain.Reply{}, err
	}
	if len(registered) == 0 {
		return chain.Reply{}, nil
	}
	log := ctrl.LoggerFrom(ctx).WithValues("hook", call.Hook, "step", call.Step.String(), "extensions", registered)
	if err := r.Runtime.CallAllExtensions(ctx, m.hook, r.cluster, m.request, m.response); err != nil {
		if r.news(call, true, err.Error()) {
			log.Error(err, "a hook failed; it is called again")
		}
		return chain.Reply{}, err
	}
	reply := chain.Reply{Message: m.response.GetMessage()}
	if retry, ok := m.response.(runtimehooksv1.RetryResponseObject); ok {
		reply.RetryAfter = time.Duration(retry.GetRetryAfterSeconds()) * time.Second
	}
	switch {
	case reply.RetryAfter == 0:
		log.Info("a hook lets the Cluster pass")
	case r.news(call, false, reply.Message):
		log.Info("a hook is blocking", "message", reply.Message, "retryAfter", reply.RetryAfter)
	}
	return reply, nil
}

// news reports whether an answer that does not let the Cluster pass differs from the last one.
func (r *run) news(call chain.CallHook, failed bool, message string) bool {
	return !slices.ContainsFunc(r.state.Answers, func(a chain.Answer) bool {
		return a.Hook == call.Hook && a.Step.Equal(call.Step) && a.Failed == failed && a.Message == message
	})
}

// computeMessage makes the request of a hook. The plans in it are what is left, as they are when the hook is called.
func computeMessage(cluster *clusterv1.Cluster, s chain.State, call chain.CallHook, d chain.Decision) (message, error) {
	c := *requestCluster(cluster)
	controlPlane, workers := steps(d.Plan.ControlPlane), steps(chain.WorkersUpgrades(s.ControlPlane.Version, d.Plan))
	now, step := s.ControlPlane.Version.String(), call.Step.String()
	switch call.Hook {
	case chain.BeforeClusterCreate:
		return message{runtimehooksv1.BeforeClusterCreate, &runtimehooksv1.BeforeClusterCreateRequest{Cluster: c}, &runtimehooksv1.BeforeClusterCreateResponse{}}, nil
	case chain.AfterControlPlaneInitialized:
		return message{runtimehooksv1.AfterControlPlaneInitialized, &runtimehooksv1.AfterControlPlaneInitializedRequest{Cluster: c}, &runtimehooksv1.AfterControlPlaneInitializedResponse{}}, nil
	case chain.BeforeClusterUpgrade:
		return message{runtimehooksv1.BeforeClusterUpgrade, &runtimehooksv1.BeforeClusterUpgradeRequest{
			Cluster: c, FromKubernetesVersion: now, ToKubernetesVersion: step, ControlPlaneUpgrades: controlPlane, WorkersUpgrades: workers,
		}, &runtimehooksv1.BeforeClusterUpgradeResponse{}}, nil
	case chain.BeforeControlPlaneUpgrade:
		return message{runtimehooksv1.BeforeControlPlaneUpgrade, &runtimehooksv1.BeforeControlPlaneUpgradeRequest{
			Cluster: c, FromKubernetesVersion: now, ToKubernetesVersion: step, ControlPlaneUpgrades: controlPlane, WorkersUpgrades: workers,
		}, &runtimehooksv1.BeforeControlPlaneUpgradeResponse{}}, nil
	case chain.AfterControlPlaneUpgrade:
		return message{runtimehooksv1.AfterControlPlaneUpgrade, &runtimehooksv1.AfterControlPlaneUpgradeRequest{
			Cluster: c, KubernetesVersion: step, ControlPlaneUpgrades: controlPlane, WorkersUpgrades: workers,
		}, &runtimehooksv1.AfterControlPlaneUpgradeResponse{}}, nil
	case chain.BeforeWorkersUpgrade:
		return message{runtimehooksv1.BeforeWorkersUpgrade, &runtimehooksv1.BeforeWorkersUpgradeRequest{
			Cluster: c, FromKubernetesVersion: oldestWorkers(s.Groups, s.ControlPlane.Version).String(), ToKubernetesVersion: step, ControlPlaneUpgrades: controlPlane, WorkersUpgrades: workers,
		}, &runtimehooksv1.BeforeWorkersUpgradeResponse{}}, nil
	case chain.AfterWorkersUpgrade:
		return message{runtimehooksv1.AfterWorkersUpgrade, &runtimehooksv1.AfterWorkersUpgradeRequest{
			Cluster: c, KubernetesVersion: step, ControlPlaneUpgrades: controlPlane, WorkersUpgrades: workers,
		}, &runtimehooksv1.AfterWorkersUpgradeResponse{}}, nil
	case chain.AfterClusterUpgrade:
		return message{runtimehooksv1.AfterClusterUpgrade, &runtimehooksv1.AfterClusterUpgradeRequest{Cluster: c, KubernetesVersion: step}, &runtimehooksv1.AfterClusterUpgradeResponse{}}, nil
	case chain.BeforeClusterDelete:
		return message{runtimehooksv1.BeforeClusterDelete, &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: c}, &runtimehooksv1.BeforeClusterDeleteResponse{}}, nil
	default:
		return message{}, fmt.Errorf("no hook %q is known", call.Hook)
	}
}

// requestCluster is the Cluster as extensions get it: without status and what only the API server or kubectl needs.
func requestCluster(cluster *clusterv1.Cluster) *clusterv1.Cluster {
	sent := &clusterv1.Cluster{TypeMeta: cluster.TypeMeta}
	cluster.ObjectMeta.DeepCopyInto(&sent.ObjectMeta)
	cluster.Spec.DeepCopyInto(&sent.Spec)
	sent.ManagedFields = nil
	maps.DeleteFunc(sent.Annotations, func(key, _ string) bool {
		return key == corev1.LastAppliedConfigAnnotation || key == conversionutil.DataAnnotation
	})
	return sent
}

func steps(versions []version.Version) []runtimehooksv1.UpgradeStepInfo {
	var list []runtimehooksv1.UpgradeStepInfo
	for _, v := range versions {
		list = append(list, runtimehooksv1.UpgradeStepInfo{Version: v.String()})
	}
	return list
}
