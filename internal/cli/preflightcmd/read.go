package preflightcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// readManifests returns the objects of files; nil where no files were named.
func readManifests(files []string, stdin io.Reader) ([]preflight.Manifest, error) {
	if len(files) == 0 {
		return nil, nil
	}
	objects, err := manifest.ReadObjects(files, stdin)
	if err != nil {
		return nil, err
	}
	found := make([]preflight.Manifest, 0, len(objects))
	for _, o := range objects {
		found = append(found, preflight.Manifest{
			Kind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
		})
	}
	return found, nil
}

// fromControlPlane returns the version of the control plane object's spec, zero if none is known,
// and what it reports to be wrong with etcd.
func fromControlPlane(objects snapshot.Objects) (asked version.Version, etcd string) {
	if objects.ControlPlane == nil {
		return version.Version{}, ""
	}
	// A control plane that does not report on etcd has no condition; /readyz then decides.
	etcd, _ = capi.EtcdProblem(objects.ControlPlane)
	return capi.VersionAt(objects.ControlPlane, "spec", "version"), etcd
}

// rolloutOf returns the control plane if Cluster API cannot bring it to a version, or else nil, and what makes its
// rollout a danger. There is neither if nobody knows which policy counts, of which windlass doctor tells.
func rolloutOf(
	objects snapshot.Objects, policies []v1alpha1.UpdatePolicy, to version.Version,
) (standing *guard.ControlPlane, dangers []preflight.Obstacle) {
	if objects.ControlPlane == nil {
		return nil, nil
	}
	group := snapshot.ControlPlaneGroup(objects.Cluster, objects.ControlPlane)
	selected, err := policy.CompileAll(policies).Select(group)
	if err != nil {
		return nil, nil
	}
	if f, fatal, ok := snapshot.Surgeless(objects, selected); ok {
		dangers = []preflight.Obstacle{{
			Subject: objects.ControlPlane.GetKind() + " " + objects.ControlPlane.GetName(),
			Message: f.Message, Fix: f.Fix, Later: !fatal,
		}}
	}
	if stuck, ok := snapshot.Stuck(objects, selected, to); ok {
		standing = &stuck
	}
	return standing, dangers
}

// topologyOf returns what the Cluster's condition says of its topology, and whether the upgrade under
// way stands still.
func topologyOf(o snapshot.Objects, a snapshot.Around, now time.Time) preflight.Topology {
	if blocks, ok := snapshot.HookStandstill(o, a); ok && blocks.IsLong(now) {
		return preflight.Topology{
			Cluster: o.Cluster.Name, Failure: blocks.Message, Fix: blocks.Fix, Stands: true,
		}
	}
	if stands, _, ok := snapshot.UnannouncedStep(o); ok {
		return preflight.Topology{
			Cluster: o.Cluster.Name, Failure: stands.Message, Fix: stands.Fix, Stands: true,
		}
	}
	failure, _ := snapshot.TopologyFailure(o.Cluster)
	return preflight.Topology{Cluster: o.Cluster.Name, Failure: failure.Message, Fix: failure.Fix}
}

// obstaclesOf returns what keeps the control plane from moving, which includes workers whose last rollout stands
// still, and what keeps workers from following it to a version.
func obstaclesOf(
	o snapshot.Objects, a snapshot.Around, to version.Version, now time.Time,
) (found []preflight.Obstacle) {
	if s, ok := snapshot.RolloutStandstill(o, a); ok && s.IsLong(now) {
		found = append(found, preflight.Obstacle{Subject: s.Subject, Message: s.Message, Fix: s.Fix})
	}
	for _, s := range snapshot.WorkerStandstills(o, a, now) {
		found = append(found, preflight.Obstacle{Subject: s.Subject, Message: s.Message, Fix: s.Fix})
	}
	if s, ok := snapshot.SuffixHold(o, a, to); ok {
		found = append(found, preflight.Obstacle{Subject: s.Subject, Message: s.Message, Fix: s.Fix, Later: true})
	}
	return found
}

// extensionsOf returns the hooks for which Cluster API finds several extensions in a namespace.
func extensionsOf(
	ctx context.Context, m management.Cluster, namespace string,
) preflight.Extensions {
	facts := doctor.Facts{Live: true}
	var err error
	if facts.Extensions, err = m.ExtensionConfigs(ctx); err == nil && len(facts.Extensions) > 1 {
		facts.NamespaceLabels, err = m.NamespaceLabels(ctx, namespace)
	}
	if err != nil {
		return preflight.Extensions{Unread: err}
	}
	return preflight.Extensions{Conflicts: facts.Conflicts()}
}

// webhooksOf returns what is wrong with the webhooks of Cluster API and its providers.
func webhooksOf(
	ctx context.Context, m management.Cluster, now time.Time,
) (facts preflight.ManagementWebhookFacts) {
	read, err := m.Webhooks(ctx, now)
	facts.Seen, facts.Unread = len(read.Callers), err
	for _, f := range read.Faults(now) {
		facts.Faults = append(facts.Faults, preflight.Obstacle{
			Subject: f.Subject, Message: f.Message, Fix: f.Fix, Later: !f.Expired,
		})
	}
	return facts
}

// unreadSettings returns what of the management cluster's settings could not be read.
func unreadSettings(read management.Settings) (unread []preflight.Unread) {
	for _, err := range read.Unread {
		unread = append(unread, preflight.Unread{User: clustercheck.ManagementUser, Err: err})
	}
	return unread
}

// startOf returns the version that the upgrade starts from. timeout bounds the request for it:
// ServerVersion has no context, and an API server may never end its answer.
func startOf(
	ctx context.Context, asked version.Version, remote kubernetes.Interface, timeout time.Duration,
) (version.Version, error) {
	if !asked.IsZero() {
		return asked, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var info apiversion.Info
	body, err := remote.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = untrusted.Object.Unmarshal(body, &info)
	}
	if err != nil {
		return version.Version{}, fmt.Errorf("asking the API server for its version: %w. Fix: %s",
			err, clustercheck.FixUnread(clustercheck.ClusterUser, err))
	}
	runs, err := version.Parse(info.GitVersion)
	if err != nil {
		return version.Version{}, fmt.Errorf("the version that the API server reports: %w", err)
	}
	return runs, nil
}

func requested(
	facts *workload.Facts, key types.NamespacedName,
) func(context.Context) ([]gate.API, error) {
	return func(ctx context.Context) ([]gate.API, error) { return facts.DeprecatedAPIs(ctx, key) }
}

// purposes are the Secrets with certificates that Cluster API's providers create for a Cluster.
var purposes = []secret.Purpose{
	secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA, secret.APIServerEtcdClient,
}

// storedCertificates returns those of the Cluster's Secrets that exist, and why others could not be
// read.
func storedCertificates(
	ctx context.Context, m management.Cluster, key types.NamespacedName,
) (found []workload.Certificate, unread error) {
	for _, purpose := range purposes {
		name := types.NamespacedName{Namespace: key.Namespace, Name: secret.Name(key.Name, purpose)}
		object := &corev1.Secret{}
		err := m.Object(ctx, "Secret", name, object)
		switch {
		case err == nil:
			bundle := object.Data[secret.TLSCrtDataName]
			found = append(found, workload.ParseBundle("Secret "+name.Name, bundle)...)
		case management.IgnoreMissing(err) != nil:
			unread = err
		}
	}
	return found, unread
}

// poolsOf returns the worker Nodes of each MachineDeployment, sorted. Machines of no
// MachineDeployment are a pool of their own without surge. One that is updated in place has no
// surge either: no machine is added to it.
func poolsOf(objects snapshot.Objects, policies []v1alpha1.UpdatePolicy, read management.Settings) []preflight.Pool {
	surge, kept, compiled := map[string]bool{}, map[string]bool{}, policy.CompileAll(policies)
	for _, md := range objects.MachineDeployments {
		group := snapshot.MachineDeploymentGroup(objects.Cluster, md)
		selected, err := compiled.Select(group)
		kept[md.Name] = err != nil || selected.InPlace
		surge[md.Name] = !kept[md.Name] && surges(md)
	}
	pools := map[string]*preflight.Pool{}
	for _, m := range objects.Machines {
		if capi.IsControlPlane(m) || m.Status.NodeRef.Name == "" || m.DeletionTimestamp != nil {
			continue
		}
		group := m.Labels[clusterv1.MachineDeploymentNameLabel]
		if pools[group] == nil {
			name := "MachineDeployment " + group
			if group == "" {
				name = "Machines without a MachineDeployment"
			}
			pools[group] = &preflight.Pool{
				Name: name, Surge: surge[group], Kept: kept[group], Config: encodeSpec(read.Bootstrap[group]),
			}
		}
		pools[group].Nodes = append(pools[group].Nodes, m.Status.NodeRef.Name)
	}
	sorted := make([]preflight.Pool, 0, len(pools))
	for _, p := range pools {
		slices.Sort(p.Nodes)
		sorted = append(sorted, *p)
	}
	slices.SortFunc(sorted, func(a, b preflight.Pool) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return sorted
}

// encodeSpec returns the spec of a bootstrap config as JSON; empty if it is not known.
func encodeSpec(config settings.Object) string {
	encoded, err := json.Marshal(config.Content["spec"])
	if err != nil || config.Content == nil {
		return ""
	}
	return string(encoded)
}

// joiningOf returns the groups whose rollouts may add a machine before they remove one. One whose machines
// are kept adds none.
func joiningOf(
	objects snapshot.Objects, policies []v1alpha1.UpdatePolicy, read management.Settings,
) preflight.Joining {
	j := preflight.Joining{PodNetworks: objects.Cluster.Spec.ClusterNetwork.Pods.CIDRBlocks}
	compiled := policy.CompileAll(policies)
	if objects.ControlPlane != nil {
		selected, err := compiled.Select(snapshot.ControlPlaneGroup(objects.Cluster, objects.ControlPlane))
		j.Groups = append(j.Groups, preflight.JoiningGroup{
			Subject: objects.ControlPlane.GetKind() + " " + objects.ControlPlane.GetName(),
			Surge:   err == nil && !selected.InPlace && snapshot.Surges(objects),
		})
	}
	for _, md := range objects.MachineDeployments {
		selected, err := compiled.Select(snapshot.MachineDeploymentGroup(objects.Cluster, md))
		if err != nil || selected.InPlace {
			continue
		}
		config := read.Bootstrap[md.Name]
		j.Groups = append(j.Groups, preflight.JoiningGroup{
			Subject: "MachineDeployment " + md.Name, Config: config.Kind + " " + config.Name, Surge: surges(md),
			NodeName: settings.NodeName(config), Replicas: int(*cmp.Or(md.Spec.Replicas, new(int32(1)))),
		})
	}
	return j
}

// surges reports whether a rollout adds a machine before it removes one. The defaults of maxSurge
// and maxUnavailable are 1 and 0.
func surges(md *clusterv1.MachineDeployment) bool {
	strategy := md.Spec.Rollout.Strategy
	if strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType {
		return false
	}
	limits := strategy.RollingUpdate
	budget, err := pool.Resolve(
		*cmp.Or(md.Spec.Replicas, new(int32(1))),
		cmp.Or(limits.MaxSurge, new(intstr.FromInt32(1))), limits.MaxUnavailable)
	if err != nil {
		return false
	}
	created, deleted := budget.Begin()
	return created > 0 && deleted == 0
}

// writesClusterConfiguration reports whether the control plane object replaces the configuration of
// kubeadm in the cluster: KubeadmControlPlane does if it has one itself.
func writesClusterConfiguration(objects snapshot.Objects) bool {
	if objects.ControlPlane == nil || objects.ControlPlane.GetKind() != "KubeadmControlPlane" {
		return false
	}
	own, _, err := unstructured.NestedMap(objects.ControlPlane.Object,
		"spec", "kubeadmConfigSpec", "clusterConfiguration")
	return err == nil && len(own) > 0
}

// unverifiedNodes returns the Nodes where kubeadm's check SystemVerification is ignored.
func unverifiedNodes(objects snapshot.Objects) (names []string) {
	for _, m := range objects.Machines {
		if m.Status.NodeRef.Name != "" && snapshot.IsUnverified(objects, m) {
			names = append(names, m.Status.NodeRef.Name)
		}
	}
	return names
}

// keptNodes returns the Nodes whose machines a policy keeps, and with them what is configured on their
// hosts.
func keptNodes(objects snapshot.Objects, policies []v1alpha1.UpdatePolicy) []string {
	compiled := policy.CompileAll(policies)
	isKept := func(g policy.Group) bool {
		selected, err := compiled.Select(g)
		return err == nil && selected.InPlace
	}
	groups := map[string]bool{}
	for _, md := range objects.MachineDeployments {
		groups[md.Name] = isKept(snapshot.MachineDeploymentGroup(objects.Cluster, md))
	}
	controlPlane := objects.ControlPlane != nil &&
		isKept(snapshot.ControlPlaneGroup(objects.Cluster, objects.ControlPlane))
	var kept []string
	for _, m := range objects.Machines {
		group := groups[m.Labels[clusterv1.MachineDeploymentNameLabel]]
		if capi.IsControlPlane(m) {
			group = controlPlane
		}
		if group && m.Status.NodeRef.Name != "" {
			kept = append(kept, m.Status.NodeRef.Name)
		}
	}
	return kept
}
