package preflight

import (
	"bufio"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Ready is what /readyz?verbose answers: the names of checks, and whether they pass.
type Ready map[string]bool

// maxReadyNameBytes bounds the name of a check of /readyz.
const maxReadyNameBytes = 80

// ParseReady reads an answer such as "[+]ping ok\n[-]etcd failed: reason withheld".
func ParseReady(answer string) Ready {
	ready := Ready{}
	lines := bufio.NewScanner(strings.NewReader(answer))
	for lines.Scan() {
		line := lines.Text()
		for prefix, passed := range map[string]bool{"[+]": true, "[-]": false} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				name, _, _ := strings.Cut(rest, " ")
				ready[text.Bound(name, maxReadyNameBytes)] = passed
			}
		}
	}
	return ready
}

// failing returns the names of checks that do not pass and that keep accepts, sorted.
func (r Ready) failing(keep func(name string) bool) []string {
	var names []string
	for name, passed := range r {
		if !passed && keep(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isEtcd reports whether a check of /readyz is about etcd: etcd, etcd-readiness.
func isEtcd(name string) bool { return strings.HasPrefix(name, "etcd") }

// CheckReady judges an API server by its own checks. Those of etcd are left to CheckEtcd.
func CheckReady(ready Ready) []clustercheck.Finding {
	r := report{id: APIServerReady}
	if failing := ready.failing(func(name string) bool { return !isEtcd(name) }); len(failing) > 0 {
		r.fail("", "look at the logs of the kube-apiserver", "checks of /readyz that fail: %s", text.JoinSome(failing, shown, ", "))
	}
	if len(ready) == 0 {
		r.add(clustercheck.NotChecked, "", "", "/readyz?verbose names no checks; is this an API server of Kubernetes?")
	}
	return r.finish("%s of /readyz pass", text.Count(len(ready), "check"))
}

// Obstacle is something about a control plane that keeps an upgrade from continuing.
type Obstacle struct {
	// Subject is the object's kind and name, Message what is so, and Fix what a person can do.
	Subject, Message, Fix string
	// Later says that it does not keep the control plane from arriving: it holds workers then, or is a risk.
	Later bool
}

// CheckControlPlane judges whether Cluster API can bring the control plane to the target, and workers after it;
// standing is nil if no UpdatePolicy prevents that.
func CheckControlPlane(standing *guard.ControlPlane, others []Obstacle) []clustercheck.Finding {
	r := report{id: ControlPlaneCanMove}
	if standing != nil {
		r.fail(named(standing.Kind, "", standing.Name), standing.Fix(), "it would be stuck: %s", standing.Why())
	}
	for _, o := range others {
		if o.Later {
			r.warn(o.Subject, o.Fix, "%s", o.Message)
		} else {
			r.fail(o.Subject, o.Fix, "%s", o.Message)
		}
	}
	return r.finish("no UpdatePolicy keeps Cluster API from moving the control plane")
}

// Topology is what the Cluster's condition TopologyReconciled says.
type Topology struct {
	// Cluster is the Cluster's name, and Failure what is wrong; empty if nothing is.
	Cluster, Failure string
	// Fix is what a person can do.
	Fix string
	// Stands says that the upgrade under way stands still, and that no new target changes that.
	Stands bool
}

// CheckTopology judges whether the controller of the topology can take a step. It only warns of an error:
// a new target may be what corrects it.
func CheckTopology(t Topology) []clustercheck.Finding {
	r := report{id: TopologyReconciles}
	subject := named("Cluster", "", t.Cluster)
	switch {
	case t.Stands:
		r.fail(subject, t.Fix, "the upgrade under way is stuck: %s", t.Failure)
	case t.Failure != "":
		r.warn(subject, t.Fix, "the controller of the topology takes no step: %s", t.Failure)
	}
	return r.finish("the condition TopologyReconciled has no error")
}

// Extensions are the registrations of the hooks of updates in place.
type Extensions struct {
	// Conflicts are the hooks for which Cluster API finds several extensions.
	Conflicts []doctor.Conflict
	// Unread is why they are not known; nil if they are.
	Unread error
}

// CheckExtensions judges whether Cluster API can ask the hooks of updates in place.
func CheckExtensions(e Extensions) []clustercheck.Finding {
	r := report{id: UpdateExtensions}
	for _, c := range e.Conflicts {
		r.fail(c.Subject, c.Fix, "%s", c.Message)
	}
	if e.Unread != nil {
		fix := clustercheck.FixUnread(clustercheck.ManagementUser, e.Unread)
		r.add(clustercheck.NotChecked, "", fix, "%v", e.Unread)
	}
	return r.finish("no hook of updates in place has two extensions")
}

// ManagementWebhookFacts are about the webhooks of Cluster API in the management cluster.
type ManagementWebhookFacts struct {
	// Seen is how many objects there are by which the API server calls one.
	Seen int
	// Faults are certificates that have expired, or that will.
	Faults []Obstacle
	// Unread is why they are not known; nil if they are.
	Unread error
}

// CheckManagementWebhooks judges whether certificates keep the management cluster's API server from calling
// webhooks of Cluster API and its providers: without an answer, no machine is created.
func CheckManagementWebhooks(w ManagementWebhookFacts) []clustercheck.Finding {
	r := report{id: ManagementWebhooks}
	for _, o := range w.Faults {
		add := r.fail
		if o.Later {
			add = r.warn
		}
		add(text.Bound(o.Subject, 2*maxNameBytes), o.Fix, "%s", o.Message)
	}
	if w.Unread != nil {
		fix := clustercheck.FixUnread(clustercheck.ManagementUser, w.Unread)
		r.add(clustercheck.NotChecked, "", fix, "%v", w.Unread)
	}
	return r.finish("%s checked that call webhooks of Cluster API: no certificate has expired, or will without a renewal",
		text.Count(w.Seen, "object"))
}

// CheckScaled finds groups that a cluster autoscaler may scale down in their rollout.
func CheckScaled(scaled []doctor.Scaled) []clustercheck.Finding {
	r := report{id: AutoscalerInRollout}
	for _, s := range scaled {
		r.warn(s.Subject, s.Fix, "%s", s.Message)
	}
	return r.finish("no cluster autoscaler acts on machines that are replaced")
}

// Etcd is what is known of etcd.
type Etcd struct {
	Ready Ready
	// Pods are the Pods of etcd in kube-system, and PodsUnread why they could not be read.
	Pods       []EtcdPod
	PodsUnread error
	// Problem is what the control plane object reports; empty if that is nothing.
	Problem string
}

// EtcdPod is a static Pod of etcd.
type EtcdPod struct {
	Name  string
	Ready bool
	// Version is what its image names, zero if it names none.
	Version version.Version
}

// CheckEtcd judges etcd. Its members are never asked themselves.
func CheckEtcd(e Etcd) []clustercheck.Finding {
	const fix = "restore every member before the upgrade: each control plane machine that is replaced takes one away"
	r := report{id: EtcdHealthy}
	if failing := e.Ready.failing(isEtcd); len(failing) > 0 {
		r.fail("the API server", fix, "it cannot use etcd: %s", strings.Join(failing, ", "))
	}
	if e.Problem != "" {
		r.fail("the control plane object", fix, "%s", e.Problem)
	}
	for _, p := range e.Pods {
		if !p.Ready {
			r.fail(named("Pod", systemSpace, p.Name), fix, "it is not Ready")
		}
	}
	if e.PodsUnread != nil {
		r.add(clustercheck.NotChecked, "Pods of etcd",
			clustercheck.FixUnread(clustercheck.ClusterUser, e.PodsUnread), "%v", e.PodsUnread)
	}
	seen := false
	for name := range e.Ready {
		seen = seen || isEtcd(name)
	}
	if !seen && len(e.Pods) == 0 && len(r.found) == 0 {
		r.add(clustercheck.NotChecked, "", "", "neither /readyz nor a Pod in %s shows etcd", systemSpace)
	}
	pods := text.Count(len(e.Pods), "Pod") + " of etcd Ready"
	if len(e.Pods) == 0 {
		pods = "its Pods are not visible here"
	}
	return r.finish("the API server reaches etcd; %s", pods)
}

// CheckSkew finds kubelets that cannot stay beside the control plane, now or at its next minor.
func CheckSkew(u Upgrade, nodes []corev1.Node) []clustercheck.Finding {
	r := report{id: VersionSkew}
	skew, now := version.KubernetesSkew(), u.From.Minor()
	for i := range nodes {
		subject, kubelet := named("Node", "", nodes[i].Name), text.Bound(nodes[i].Status.NodeInfo.KubeletVersion, maxNameBytes)
		runs, err := version.Parse(kubelet)
		switch {
		case err != nil:
			r.add(clustercheck.NotChecked, subject, "", "its kubelet reports the version %q, which cannot be read", kubelet)
		case !skew.Allows(runs.Minor(), now):
			r.fail(subject, "upgrade or replace it first", "its kubelet runs %s, which is not supported beside a control plane at %s", kubelet, u.From)
		case now.Before(u.To.Minor()) && !skew.Allows(runs.Minor(), now.Next()):
			r.warn(subject, "let the upgrade stop for workers first (`windlass plan` shows where), or upgrade it now",
				"its kubelet runs %s, which is not supported beside a control plane at %s, its next minor", kubelet, now.Next())
		}
	}
	return r.finish("%s within the version skew policy", text.CountAre(len(nodes), "Node"))
}
