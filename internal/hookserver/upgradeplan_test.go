package hookserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// graphs is a hookserver.Graphs with a fixed list.
type graphs []v1alpha1.UpgradeGraph

func (g graphs) ListUpgradeGraphs(context.Context) ([]v1alpha1.UpgradeGraph, error) { return g, nil }

// brokenGraphs is a hookserver.Graphs that cannot be read.
type brokenGraphs struct{}

func (brokenGraphs) ListUpgradeGraphs(context.Context) ([]v1alpha1.UpgradeGraph, error) {
	return nil, errors.New("listing UpgradeGraphs: the cache is not started")
}

func graph(name string, spec v1alpha1.UpgradeGraphSpec) v1alpha1.UpgradeGraph {
	return v1alpha1.UpgradeGraph{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func stable() v1alpha1.UpgradeGraph {
	return graph("stable", v1alpha1.UpgradeGraphSpec{
		Versions: []v1alpha1.Version{"v1.24.17", "v1.25.16", "v1.26.15", "v1.27.16", "v1.28.15", "v1.29.0", "v1.30.3", "v1.31.2", "v1.32.1", "v1.32.3", "v1.33.0", "v1.35.0",
			"v1.40.1+rke2r1", "v1.40.1+rke2r2"},
		Classes: []v1alpha1.ClassReference{{Name: "standard", Namespace: "classes"}},
		Blocked: []v1alpha1.BlockedEdge{{From: "v1.28", To: "v1.29.0", Reason: "the storage driver is not ready"}},
		Floors:  []v1alpha1.Floor{{Before: "v1.33", AtLeast: "v1.32.3", Reason: "etcd"}},
		Workers: []v1alpha1.WorkersRule{{WorkerClasses: []string{"gpu"}, Stops: v1alpha1.WorkerStopsEveryMinor, Reason: "drivers"}},
	})
}

// request asks for the plan of a cluster of the class classes/standard.
func request(from, workers, to string) *runtimehooksv1.GenerateUpgradePlanRequest {
	r := &runtimehooksv1.GenerateUpgradePlanRequest{
		FromControlPlaneKubernetesVersion: from, FromWorkersKubernetesVersion: workers, ToKubernetesVersion: to,
	}
	r.Cluster.Namespace, r.Cluster.Name = "clusters", "one"
	r.Cluster.Spec.Topology.ClassRef = clusterv1.ClusterClassRef{Namespace: "classes", Name: "standard"}
	return r
}

func with(r *runtimehooksv1.GenerateUpgradePlanRequest, change func(*runtimehooksv1.GenerateUpgradePlanRequest)) *runtimehooksv1.GenerateUpgradePlanRequest {
	change(r)
	return r
}

func ask(t *testing.T, g hookserver.Graphs, r *runtimehooksv1.GenerateUpgradePlanRequest) *runtimehooksv1.GenerateUpgradePlanResponse {
	t.Helper()
	response := &runtimehooksv1.GenerateUpgradePlanResponse{}
	hookserver.NewUpgradePlanner(g, nil, nil, nil).GenerateUpgradePlan(t.Context(), r, response)
	return response
}

func stops(steps []runtimehooksv1.UpgradeStep) string {
	versions := make([]string, 0, len(steps))
	for _, s := range steps {
		versions = append(versions, s.Version)
	}
	return strings.Join(versions, " ")
}

func TestGenerateUpgradePlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request               *runtimehooksv1.GenerateUpgradePlanRequest
		controlPlane, workers string
	}{
		"four minors, a floor on the way": {
			request:      request("v1.29.0", "v1.29.0", "v1.33.0"),
			controlPlane: "v1.30.3 v1.31.2 v1.32.3 v1.33.0", workers: "v1.32.3 v1.33.0",
		},
		"no workers": {request: request("v1.29.0", "", "v1.31.2"), controlPlane: "v1.30.3 v1.31.2"},
		"control plane done, workers not": {
			request: request("v1.31.2", "v1.29.0", "v1.31.2"), workers: "v1.31.2",
		},
		"all done": {request: request("v1.31.2", "v1.31.2", "v1.31.2")},
		"old kubelets may lag two minors only": {
			request:      request("v1.24.17", "v1.24.17", "v1.27.16"),
			controlPlane: "v1.25.16 v1.26.15 v1.27.16", workers: "v1.26.15 v1.27.16",
		},
		"workers stop where the control plane is now": {
			request:      request("v1.32.3", "v1.29.0", "v1.33.0"),
			controlPlane: "v1.33.0", workers: "v1.32.3 v1.33.0",
		},
		"workers may still wait when nothing has begun": {
			request:      request("v1.31.2", "v1.30.3", "v1.33.0"),
			controlPlane: "v1.32.3 v1.33.0", workers: "v1.33.0",
		},
		"workers that have begun to follow finish their stop": {
			request: with(request("v1.31.2", "v1.29.0", "v1.33.0"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
				r.Cluster.Annotations = map[string]string{"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade,AfterWorkersUpgrade"}
			}),
			controlPlane: "v1.32.3 v1.33.0", workers: "v1.31.2 v1.33.0",
		},
		"other pending hooks do not count": {
			request: with(request("v1.31.2", "v1.29.0", "v1.33.0"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
				r.Cluster.Annotations = map[string]string{"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade,BeforeWorkersUpgrade"}
			}),
			controlPlane: "v1.32.3 v1.33.0", workers: "v1.32.3 v1.33.0",
		},
		"versions are spelled as the request spells them": {
			request:      request("1.32.3", "v1.29.0", "1.33.0"),
			controlPlane: "1.33.0", workers: "1.32.3 1.33.0",
		},
		"another build of the same release": {
			request:      request("v1.40.1+rke2r1", "v1.40.1+rke2r1", "v1.40.1+rke2r2"),
			controlPlane: "v1.40.1+rke2r2", workers: "v1.40.1+rke2r2",
		},
		"a rule for a group makes all workers stop": {
			request: with(request("v1.29.0", "v1.29.0", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
				r.Cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "a", Class: "small"}, {Name: "b", Class: "gpu"}}
			}),
			controlPlane: "v1.30.3 v1.31.2", workers: "v1.30.3 v1.31.2",
		},
		"a rule for no group of the cluster": {
			request: with(request("v1.29.0", "v1.29.0", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
				r.Cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "a", Class: "small"}}
			}),
			controlPlane: "v1.30.3 v1.31.2", workers: "v1.31.2",
		},
		"the namespace of the class is the cluster's unless given": {
			request: with(request("v1.30.3", "", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
				r.Cluster.Namespace, r.Cluster.Spec.Topology.ClassRef.Namespace = "classes", ""
			}),
			controlPlane: "v1.31.2",
		},
		"a graph that the settings name": {
			request: with(request("v1.30.3", "", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
				r.Settings, r.Cluster = map[string]string{"graph": "stable"}, clusterv1.Cluster{}
			}),
			controlPlane: "v1.31.2",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := ask(t, graphs{stable()}, tt.request)
			if response.Status != runtimehooksv1.ResponseStatusSuccess || response.Message != "" {
				t.Fatalf("status is %s: %s", response.Status, response.Message)
			}
			if got := stops(response.ControlPlaneUpgrades); got != tt.controlPlane {
				t.Errorf("controlPlaneUpgrades are %q, want %q", got, tt.controlPlane)
			}
			if got := stops(response.WorkersUpgrades); got != tt.workers {
				t.Errorf("workersUpgrades are %q, want %q", got, tt.workers)
			}
		})
	}
}

// TestGroupStops holds that an engine which moves groups apart gets the rules of the same graph, by the same settings.
func TestGroupStops(t *testing.T) {
	t.Parallel()
	cluster := request("v1.29.0", "v1.29.0", "v1.31.2").Cluster
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "a", Class: "small"}, {Name: "b", Class: "gpu"}}
	named := graph("named", v1alpha1.UpgradeGraphSpec{
		Versions: []v1alpha1.Version{"v1.31.2"}, Workers: []v1alpha1.WorkersRule{{Stops: v1alpha1.WorkerStopsEveryMinor, Reason: "audit"}},
	})
	invalid := stable()
	invalid.Spec.Workers[0].Reason = ""
	tests := map[string]struct {
		graphs   graphs
		settings map[string]string
		want     []plan.StopRule
		problem  string
	}{
		"by class":   {graphs: graphs{stable(), named}, want: []plan.StopRule{{Groups: []string{"b"}, EveryMinor: true, Reason: "drivers"}}},
		"by setting": {graphs: graphs{named}, settings: map[string]string{"graph": "named"}, want: []plan.StopRule{{Groups: []string{"a", "b"}, EveryMinor: true, Reason: "audit"}}},
		"no graph":   {graphs: graphs{named}, problem: "no UpgradeGraph serves ClusterClass classes/standard"},
		"not valid":  {graphs: graphs{invalid}, problem: `UpgradeGraph "stable" is not valid: spec.workers[0].reason`},
		"a setting that is unknown": {
			graphs: graphs{stable()}, settings: map[string]string{"grpah": "named"}, problem: `the ExtensionConfig's settings hold the unknown key "grpah"`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := hookserver.GraphOf(t.Context(), tt.graphs, &cluster, tt.settings)
			if (err != nil) != (tt.problem != "") || err != nil && !strings.HasPrefix(err.Error(), tt.problem) {
				t.Fatalf("error is %v, want %q", err, tt.problem)
			}
			if diff := cmp.Diff(tt.want, got.Stops); diff != "" {
				t.Errorf("stops (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGenerateUpgradePlanFailure(t *testing.T) {
	t.Parallel()
	settings := func(s map[string]string) *runtimehooksv1.GenerateUpgradePlanRequest {
		return with(request("v1.30.3", "", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) { r.Settings = s })
	}
	invalid := stable()
	invalid.Spec.Blocked[0].From = "v1.28.1"
	twin := stable()
	twin.Name = "another"
	tests := map[string]struct {
		graphs  hookserver.Graphs
		request *runtimehooksv1.GenerateUpgradePlanRequest
		want    string
	}{
		"an empty request": {
			request: &runtimehooksv1.GenerateUpgradePlanRequest{},
			want:    `the request's fromControlPlaneKubernetesVersion: "" is not a Kubernetes version: it is empty. Fix: write all three numbers, such as v1.31.2`,
		},
		"a control plane version that does not parse": {
			request: request("v1.30", "", "v1.31.2"),
			want:    `the request's fromControlPlaneKubernetesVersion: "v1.30" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
		},
		"a worker version that does not parse": {
			request: request("v1.30.3", "nonsense", "v1.31.2"),
			want:    `the request's fromWorkersKubernetesVersion: "nonsense" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
		},
		"a target that does not parse": {
			request: request("v1.30.3", "", "v1.31.2.1"),
			want: `the request's toKubernetesVersion: "v1.31.2.1" is not a Kubernetes version: ` +
				`it has more than three numbers. Fix: write v1.31.2, or put a build after a plus sign, such as v1.31.2+build.1`,
		},
		"no class and no setting": {
			request: with(request("v1.30.3", "", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) { r.Cluster = clusterv1.Cluster{} }),
			want:    `the Cluster names no ClusterClass in spec.topology.classRef, and the ExtensionConfig's settings name no graph; set either`,
		},
		"a class without a graph": {
			graphs:  graphs{},
			request: request("v1.30.3", "", "v1.31.2"),
			want:    `no UpgradeGraph serves ClusterClass classes/standard; add the class to the spec.classes of one, or name one in the ExtensionConfig's settings`,
		},
		"a class with two graphs": {
			graphs:  graphs{stable(), twin},
			request: request("v1.30.3", "", "v1.31.2"),
			want:    `UpgradeGraphs "another", "stable" all serve ClusterClass classes/standard; let only one of them serve it`,
		},
		"a setting that names no graph": {
			request: settings(map[string]string{"graph": "gone"}),
			want:    `there is no UpgradeGraph "gone", which the ExtensionConfig's settings name; create it, or correct the setting`,
		},
		"an empty setting": {
			request: settings(map[string]string{"graph": ""}),
			want:    `the setting "graph" of the ExtensionConfig is empty; name an UpgradeGraph, or remove the setting`,
		},
		"an unknown setting": {
			request: settings(map[string]string{"graph": "stable", "grahp": "x"}),
			want:    `the ExtensionConfig's settings hold the unknown key "grahp"; the only one there is: "graph"`,
		},
		"a graph that is not valid": {
			graphs:  graphs{invalid},
			request: request("v1.30.3", "", "v1.31.2"),
			want: `UpgradeGraph "stable" is not valid: spec.blocked[0].from: Invalid value: "v1.28.1": it matches none of spec.versions; ` +
				`correct it, or add the version to the list`,
		},
		"graphs that cannot be read": {
			graphs: brokenGraphs{}, request: request("v1.30.3", "", "v1.31.2"), want: `listing UpgradeGraphs: the cache is not started`,
		},
		"a target that is not on offer": {
			request: request("v1.30.3", "", "v1.31.3"),
			want: `UpgradeGraph "stable": target v1.31.3: the upgrade graph does not offer it. Fix: ` +
				`add v1.31.3 to the upgrade graph, or choose one of its versions`,
		},
		"a downgrade": {
			request: request("v1.31.2", "v1.30.3", "v1.30.3"),
			want: `UpgradeGraph "stable": target v1.30.3: it is older than the control plane's v1.31.2, and Kubernetes is never downgraded. Fix: ` +
				`choose a version newer than v1.31.2`,
		},
		"a block": {
			request: request("v1.28.15", "", "v1.30.3"),
			want: `UpgradeGraph "stable": v1.28.15 -> v1.29.0: the upgrade graph blocks this step (the storage driver is not ready). Fix: ` +
				`add another v1.29 version to the graph, or lift the block`,
		},
		"a minor that is missing": {
			request: request("v1.33.0", "", "v1.35.0"),
			want: `UpgradeGraph "stable": v1.34: the upgrade graph offers no v1.34 version, and the control plane cannot skip a minor on its way ` +
				`from v1.33.0 to v1.35.0. Fix: add a v1.34 version`,
		},
		"workers newer than the control plane": {
			request: request("v1.30.3", "v1.31.2", "v1.31.2"),
			want: `UpgradeGraph "stable": group "workers" v1.31.2: kubelets must not be newer than the control plane, which is at v1.30.3. Fix: ` +
				`check both versions; workers are never upgraded before the control plane`,
		},
		"workers too old": {
			request: request("v1.31.2", "v1.27.16", "v1.32.3"),
			want: `UpgradeGraph "stable": group "workers" v1.27.16: it lags 4 minors behind the control plane at v1.31.2: kubelet may lag 3 minors. Fix: ` +
				`move this group to v1.28 or newer first`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.graphs == nil {
				tt.graphs = graphs{stable()}
			}
			response := ask(t, tt.graphs, tt.request)
			want := &runtimehooksv1.GenerateUpgradePlanResponse{}
			want.Status, want.Message = runtimehooksv1.ResponseStatusFailure, tt.want
			if diff := cmp.Diff(want, response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	const most = 2048
	for name, key := range map[string]string{
		"long":            strings.Repeat("x", 1<<20),
		"cut in a rune":   strings.Repeat("x", 1979) + strings.Repeat("\u00e9", 1000),
		"controls":        "a\nb\x1b[31m\x00",
		"not valid UTF-8": "\xff\xfe" + strings.Repeat("\xff", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := with(request("v1.30.3", "", "v1.31.2"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) { r.Settings = map[string]string{key: "x"} })
			reason := stable()
			reason.Spec.Blocked = []v1alpha1.BlockedEdge{{To: "v1.31.2", Reason: key}}
			for _, message := range []string{
				ask(t, graphs{stable()}, r).Message,
				ask(t, graphs{reason}, request("v1.30.3", "", "v1.31.2")).Message,
			} {
				if message == "" || len(message) > most || !utf8.ValidString(message) || strings.ContainsAny(message, "\n\x1b\x00") {
					t.Errorf("message of %d bytes is not fit for a condition: %q", len(message), message)
				}
			}
		})
	}
}

// TestAnswersAreStable holds that neither the order in which graphs are listed nor a repetition changes a byte.
func TestAnswersAreStable(t *testing.T) {
	t.Parallel()
	twin := stable()
	twin.Name = "another"
	settings := map[string]string{"graph": "stable", "b": "", "a": "", "c": ""}
	for _, r := range []*runtimehooksv1.GenerateUpgradePlanRequest{
		request("v1.29.0", "v1.29.0", "v1.33.0"),
		with(request("v1.29.0", "v1.29.0", "v1.33.0"), func(r *runtimehooksv1.GenerateUpgradePlanRequest) { r.Settings = settings }),
	} {
		answers := map[string]int{}
		list := graphs{stable(), twin, graph("third", v1alpha1.UpgradeGraphSpec{})}
		for range 20 {
			slices.Reverse(list)
			body, err := json.Marshal(ask(t, slices.Clone(list), r))
			if err != nil {
				t.Fatal(err)
			}
			answers[string(body)]++
		}
		if len(answers) != 1 {
			t.Errorf("one request got %d answers: %v", len(answers), answers)
		}
	}
}

// TestLogOncePerChange holds that a question that Cluster API repeats is logged when its answer changes, and only then.
func TestLogOncePerChange(t *testing.T) {
	t.Parallel()
	var lines []string
	logger := klog.New(&recordingSink{lines: &lines})
	ctx := log.IntoContext(t.Context(), logger)
	list := graphs{stable()}
	planner := hookserver.NewUpgradePlanner(list, nil, nil, nil)
	tell := func(r *runtimehooksv1.GenerateUpgradePlanRequest) {
		planner.GenerateUpgradePlan(ctx, r, &runtimehooksv1.GenerateUpgradePlanResponse{})
	}
	for range 3 {
		tell(request("v1.29.0", "v1.29.0", "v1.33.0"))
	}
	for range 3 {
		tell(request("v1.29.0", "v1.29.0", "v1.34.0"))
	}
	other := request("v1.29.0", "v1.29.0", "v1.33.0")
	other.Cluster.Name = "two"
	tell(other)
	tell(request("v1.29.0", "v1.29.0", "v1.33.0"))
	want := []string{"Planned an upgrade", "Refused to plan an upgrade", "Planned an upgrade", "Planned an upgrade"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("log lines (-want +got):\n%s", diff)
	}
}

// controlPlanes has one control plane object, or none.
type controlPlanes struct {
	object *unstructured.Unstructured
	err    error
}

func (c *controlPlanes) ReadReferenced(
	context.Context, string, clusterv1.ContractVersionedObjectReference,
) (*unstructured.Unstructured, error) {
	return c.object, c.err
}

// TestKnownRisks: a graph that blocks known risks refuses their steps with a reason, and another list
// counts in the place of the built-in one.
func TestKnownRisks(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.UpgradeGraphSpec{
		Versions: []v1alpha1.Version{"v1.33.7", "v1.34.5"}, Classes: []v1alpha1.ClassReference{{Name: "standard"}},
	}
	blocking := spec
	blocking.KnownRisks.Action = v1alpha1.KnownRisksBlock
	accepting := blocking
	for _, id := range []string{"etcd-36-zombie-members", "etcd-36-too-many-learners"} {
		accepting.KnownRisks.Accepted = append(accepting.KnownRisks.Accepted, v1alpha1.AcceptedRisk{ID: id, Reason: "new etcd"})
	}
	pinned := &unstructured.Unstructured{Object: map[string]any{
		"kind": "KubeadmControlPlane", "spec": map[string]any{"replicas": int64(1), "kubeadmConfigSpec": map[string]any{
			"clusterConfiguration": map[string]any{"etcd": map[string]any{"local": map[string]any{"imageTag": "3.5.26-0"}}},
		}},
	}}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "kubeadmcontrolplanes"}, "cp")
	learners := accepting
	learners.KnownRisks.Accepted = accepting.KnownRisks.Accepted[:1]
	for name, tt := range map[string]struct {
		spec     v1alpha1.UpgradeGraphSpec
		known    *risks.Set
		kind     string
		topology int32
		read     *controlPlanes
		message  string
	}{
		"etcd that the control plane names": {spec: blocking, kind: "KubeadmControlPlane", read: &controlPlanes{object: pinned}},
		"no control plane yet":              {spec: blocking, kind: "KubeadmControlPlane", read: &controlPlanes{err: gone}, message: "etcd-36-zombie-members"},
		"an unknown control plane": {
			spec: blocking, kind: "KubeadmControlPlane", read: &controlPlanes{err: errors.New("timeout")}, message: "reading the control plane for known risks: timeout",
		},
		"no other kind is read":    {spec: blocking, kind: "Secret", read: &controlPlanes{err: errors.New("read")}},
		"nor for another graph":    {spec: spec, kind: "KubeadmControlPlane", read: &controlPlanes{err: errors.New("read")}},
		"machines of the topology": {spec: learners, topology: 1},
		"by default":               {spec: spec},
		"blocked":                  {spec: blocking, message: "etcd-36-zombie-members: Members that were removed"},
		"of kubeadm":               {spec: blocking, kind: "KubeadmControlPlane", message: "(etcd v3.5.24 -> v3.6.5)"},
		"a managed control plane":  {spec: blocking, kind: "AWSManagedControlPlane"},
		"accepted":                 {spec: accepting},
		"an empty list":            {spec: blocking, known: &risks.Set{}},
	} {
		r := request("v1.33.7", "", "v1.34.5")
		r.Cluster.Spec.ControlPlaneRef.Kind = tt.kind
		r.Cluster.Spec.ControlPlaneRef.APIGroup = "controlplane.cluster.x-k8s.io"
		if tt.topology > 0 {
			r.Cluster.Spec.Topology.ControlPlane.Replicas = &tt.topology
		}
		var read hookserver.ControlPlanes
		if tt.read != nil {
			read = tt.read
		}
		response := &runtimehooksv1.GenerateUpgradePlanResponse{}
		planner := hookserver.NewUpgradePlanner(graphs{graph("g", tt.spec)}, nil, tt.known, read)
		planner.GenerateUpgradePlan(t.Context(), r, response)
		want := runtimehooksv1.ResponseStatusSuccess
		if tt.message != "" {
			want = runtimehooksv1.ResponseStatusFailure
		}
		if response.Status != want || !strings.Contains(response.Message, tt.message) {
			t.Errorf("%s: %s %q, want %s %q", name, response.Status, response.Message, want, tt.message)
		}
	}
}
