package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// PreflightOptions are the inputs of a preflight. Remote, Requested, Upgrade, Timeout and Now are
// required.
type PreflightOptions struct {
	Remote Remote
	// Requested returns the APIs that the API server has seen requests for and that a later minor
	// removes.
	Requested func(context.Context) ([]gate.API, error)
	Upgrade   preflight.Upgrade
	// Version is what the control plane object asks for; zero if it is not known.
	Version  version.Version
	Machines []*clusterv1.Machine
	// Pools are the groups of worker Nodes.
	Pools []preflight.Pool
	// Standing is the control plane if Cluster API cannot bring it to the target; nil if it can.
	Standing *guard.ControlPlane
	// Obstacles are what else keeps the control plane, or the workers after it, from moving.
	Obstacles []preflight.Obstacle
	// Topology is what the Cluster's condition says of its topology.
	Topology preflight.Topology
	// Extensions are the registrations of the hooks of updates in place.
	Extensions preflight.Extensions
	// Webhooks are those of Cluster API in the management cluster.
	Webhooks preflight.ManagementWebhookFacts
	// Scaled are the groups that a cluster autoscaler may scale down in their rollout.
	Scaled []doctor.Scaled
	// Joining is what the machines need that a rollout adds.
	Joining preflight.Joining
	// EtcdProblem is what the control plane object reports of etcd; empty if that is nothing.
	EtcdProblem string
	// Stored are certificates of the management cluster, and StoredUnread why some could not be read.
	Stored       []workload.Certificate
	StoredUnread error
	// Manifests are given objects, and nil if none were given.
	Manifests []preflight.Manifest
	// Risks are the known risks of the upgrade, for which the running etcd counts, too.
	Risks preflight.Risks
	// KubeadmProvider is the version of the provider of KubeadmControlPlane; zero if it is unknown.
	KubeadmProvider version.Version
	// Settings are those of the management cluster's objects, and the findings that are accepted.
	Settings preflight.Settings
	// Timeout bounds each check, and CertificateDays is how many whole days certificates must have
	// left.
	Timeout         time.Duration
	CertificateDays int
	Now             time.Time
}

// scout is one preflight.
type scout struct {
	*prober

	o PreflightOptions
}

// Preflight makes the checks of package preflight, one after another. It changes nothing in the
// cluster. A check is NotChecked if it cannot read its objects. The error is that of ctx.
func Preflight(ctx context.Context, o PreflightOptions) ([]clustercheck.Finding, error) {
	s := scout{&prober{Options: Options{
		Remote: o.Remote, Version: o.Version, Machines: o.Machines,
		Timeout: o.Timeout, CertificateDays: o.CertificateDays, Now: o.Now,
	}}, o}
	nodes, unread := s.readNodes(ctx)
	if unread != nil && !isAnswer(unread) {
		// Manifests are judged without the API server, and so is what the management cluster shows to be wrong.
		wrong := slices.DeleteFunc(s.management(), func(f clustercheck.Finding) bool {
			return f.Outcome == clustercheck.Passed
		})
		others := slices.DeleteFunc(preflight.IDs()[1:], func(id clustercheck.ID) bool {
			return id == preflight.RemovedAPIsInManifests ||
				slices.ContainsFunc(wrong, func(f clustercheck.Finding) bool { return f.ID == id })
		})
		s.findings = clustercheck.Unreachable(unread, others...)
		for _, f := range wrong {
			s.add(f)
		}
		s.manifests()
		return s.findings, context.Cause(ctx)
	}
	s.tryAPI(ctx, nodes, clustercheck.APIDiscovery, s.discover)
	ready, unready := s.readReady(ctx)
	s.judge(preflight.APIServerReady, unready, func() []clustercheck.Finding {
		return preflight.CheckReady(ready)
	})
	pods, unlisted := s.readPods(ctx)
	s.etcd(ready, unready, pods.etcd, unlisted)
	s.judge(clustercheck.Nodes, unread, func() []clustercheck.Finding {
		return []clustercheck.Finding{clustercheck.CheckNodes(nodes, o.Machines)}
	})
	s.judge(preflight.VersionSkew, unread, func() []clustercheck.Finding {
		return preflight.CheckSkew(o.Upgrade, nodes)
	})
	s.risks(ctx, nodes, pods.etcd, unlisted)
	for _, f := range s.management() {
		s.add(f)
	}
	s.judge(preflight.NewMachinesCanJoin, unread, func() []clustercheck.Finding {
		return preflight.CheckJoining(o.Joining, nodes)
	})
	s.removedAPIs(ctx)
	s.settings(ctx, nodes)
	s.judge(preflight.MachineRequirements, unread, func() []clustercheck.Finding {
		of := o.Risks.Facts.DistributionOf(o.Upgrade.To)
		return preflight.CheckMachines(o.Upgrade, of, nodes, o.Settings)
	})
	bundles, unbundled := s.webhooks(ctx)
	s.budgets(ctx, pods.all, unlisted)
	s.certificates(ctx, bundles, unbundled)
	s.judge(preflight.NodeLabelsStay, firstOf(unread, unlisted), func() []clustercheck.Finding {
		return preflight.CheckHandLabels(o.Pools, nodes, pods.all, s.handLabels)
	})
	s.judge(preflight.RoomForDrains, firstOf(unread, unlisted), func() []clustercheck.Finding {
		return preflight.CheckRoom(o.Pools, nodes, pods.all)
	})
	return s.findings, context.Cause(ctx)
}

// management judges what the management cluster alone shows.
func (s scout) management() []clustercheck.Finding {
	return slices.Concat(preflight.CheckControlPlane(s.o.Standing, s.o.Obstacles), preflight.CheckTopology(s.o.Topology),
		preflight.CheckExtensions(s.o.Extensions), preflight.CheckManagementWebhooks(s.o.Webhooks),
		preflight.CheckScaled(s.o.Scaled))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// notChecked is the finding of a check that cannot read something of the workload cluster.
func notChecked(id clustercheck.ID, prefix string, unread error) clustercheck.Finding {
	f := clustercheck.Skip(id, "%s%v", prefix, unread)
	f.Fix = clustercheck.FixUnread(clustercheck.ClusterUser, unread)
	return f
}

// judge adds what a check finds, or that its facts could not be read.
func (s scout) judge(id clustercheck.ID, unread error, check func() []clustercheck.Finding) {
	if unread != nil {
		s.add(notChecked(id, "", unread))
		return
	}
	for _, f := range check() {
		s.add(f)
	}
}

// within bounds the reading of one check. Its error names what was read.
func (s scout) within(
	ctx context.Context, what string, read func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := read(ctx); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}

// readReady asks the API server for its own checks. It answers 500 if one of them fails.
func (s scout) readReady(ctx context.Context) (ready preflight.Ready, err error) {
	err = s.within(ctx, "/readyz", func(ctx context.Context) error {
		request := s.Remote.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "")
		answer, err := request.DoRaw(ctx)
		if ready = preflight.ParseReady(string(answer)); len(ready) > 0 {
			return nil
		}
		return withStatus(answer, err)
	})
	return ready, err
}

const (
	// podsPerPage keeps a page below the bound of an answer, with Pods of 80 KiB.
	podsPerPage = 200
	// maxPods is more than Kubernetes supports in a cluster, as are maxObjects of a kind.
	maxPods, maxObjects = 200_000, 100_000
	// maxPodBytes bounds what is kept of all Pods: 600 bytes each of 200,000, and more.
	maxPodBytes = 128 << 20
)

// podFacts are what counts of all Pods.
type podFacts struct {
	all  []preflight.Workload
	etcd []preflight.EtcdPod
}

func (s scout) readPods(ctx context.Context) (facts podFacts, err error) {
	isEtcd := labels.SelectorFromSet(labels.Set{"component": "etcd", "tier": "control-plane"})
	kept := 0
	err = s.within(ctx, "Pods", func(ctx context.Context) error {
		return eachPage(ctx, podsPerPage, maxPods, func(
			ctx context.Context, o metav1.ListOptions,
		) (metav1.ListInterface, int, error) {
			page, err := s.Remote.CoreV1().Pods("").List(ctx, o)
			if err != nil {
				return nil, 0, err
			}
			for i := range page.Items {
				pod := &page.Items[i]
				if kept += keptBytes(pod); kept > maxPodBytes {
					return nil, 0, fmt.Errorf("their labels and scheduling rules have more than %d MiB",
						maxPodBytes>>20)
				}
				if w, ok := preflight.NewWorkload(pod); ok {
					facts.all = append(facts.all, w)
				}
				if pod.Namespace == metav1.NamespaceSystem && isEtcd.Matches(labels.Set(pod.Labels)) {
					etcd := preflight.EtcdPod{
						Name: pod.Name, Ready: isReady(pod), Version: etcdVersion(pod),
					}
					facts.etcd = append(facts.etcd, etcd)
				}
			}
			return page, len(page.Items), nil
		})
	})
	return facts, err
}

// keptBytes is about how much preflight.NewWorkload keeps of a Pod.
func keptBytes(pod *corev1.Pod) int {
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels}
	spec := corev1.PodSpec{
		NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations,
		Affinity: pod.Spec.Affinity,
	}
	return meta.Size() + spec.Size()
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (s scout) etcd(
	ready preflight.Ready, unready error, pods []preflight.EtcdPod, unlisted error,
) {
	facts := preflight.Etcd{
		Ready: ready, Pods: pods, PodsUnread: unlisted, Problem: s.o.EtcdProblem,
	}
	s.judge(preflight.EtcdHealthy, unready, func() []clustercheck.Finding {
		return preflight.CheckEtcd(facts)
	})
}

// certificates judges those that a connection shows, that the management cluster stores, and the CAs
// of webhooks, bundles. unbundled is why some of these could not be read.
func (s scout) certificates(
	ctx context.Context, bundles []workload.Certificate, unbundled error,
) {
	var shown []workload.Certificate
	err := s.within(ctx, "certificates", func(ctx context.Context) (err error) {
		shown, err = s.Remote.Certificates(ctx)
		return err
	})
	s.judge(clustercheck.Certificates, err, func() []clustercheck.Finding {
		found := clustercheck.MachineCertificates(s.Machines)
		for _, c := range slices.Concat(shown, s.o.Stored, bundles) {
			found = append(found, clustercheck.Certificate{Name: c.Name, NotAfter: c.NotAfter})
		}
		findings := []clustercheck.Finding{
			clustercheck.CheckCertificates(found, s.CertificateDays, s.Now),
		}
		if s.o.StoredUnread != nil {
			unread := clustercheck.Skip(clustercheck.Certificates, "%v", s.o.StoredUnread)
			unread.Fix = clustercheck.FixUnread(clustercheck.ManagementUser, s.o.StoredUnread)
			findings = append(findings, unread)
		}
		if unbundled != nil {
			findings = append(findings,
				notChecked(clustercheck.Certificates, "CAs of webhooks: ", unbundled))
		}
		return findings
	})
}

func (s scout) manifests() {
	if s.o.Manifests != nil {
		s.judge(preflight.RemovedAPIsInManifests, nil, func() []clustercheck.Finding {
			return preflight.CheckManifests(s.o.Upgrade, s.o.Manifests)
		})
	}
}
