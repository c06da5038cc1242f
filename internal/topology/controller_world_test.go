package topology

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	externalfake "sigs.k8s.io/cluster-api/controllers/external/fake"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if err := feature.MutableGates.Set("ClusterTopology=true,RuntimeSDK=true,MachinePool=true"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// world is a management cluster with one Cluster, the controller, and the extensions that it calls.
type world struct {
	*fakeapi.API
	t   *testing.T
	now time.Time
	r   *Reconciler

	// answers are what the extension of a hook says, by the hook's name; others let the Cluster pass.
	answers map[string]answer
	// absent are hooks without an extension.
	absent map[string]bool
	// plans are what GenerateUpgradePlan extensions answer, by the version of the control plane; "" is for others.
	plans  map[string]*runtimehooksv1.GenerateUpgradePlanResponse
	limits map[string]int
	// rules are those of the upgrade graph, offered its versions; rulesProblem is why it cannot be read.
	rules        []plan.StopRule
	offered      []version.Version
	rulesProblem string
	// nodes are those of the control plane.
	nodes []string

	// calls and logged are what has happened since the last report, shown is what was reported last of the Cluster.
	calls, logged []string
	shown         map[string]string
}

type answer struct {
	retryAfter time.Duration
	message    string
	failed     bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		API: fakeapi.New(t, "testdata/world.yaml"), t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		answers: map[string]answer{}, absent: map[string]bool{}, plans: map[string]*runtimehooksv1.GenerateUpgradePlanResponse{}, limits: map[string]int{}, shown: map[string]string{},
	}
	w.restart()
	return w
}

// restart forgets everything that a process remembers.
func (w *world) restart() {
	w.t.Helper()
	options := Options{
		Client: w.Client, APIReader: w.Client, Runtime: &extensions{world: w}, Recorder: &events.FakeRecorder{}, Now: func() time.Time { return w.now },
		Limits: w, OwnPlanner: "own.planner", OwnGraph: w.graph, ControlPlaneNodes: w.listNodes,
	}
	objects, err := New(ObjectOptions{
		Client: options.Client, APIReader: options.APIReader, Runtime: options.Runtime, Recorder: options.Recorder, Now: options.Now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	discard := logr.Discard()
	w.r = &Reconciler{
		Options: options, objects: objects, plans: newPlanCache(w.t.Context()), controller: capicontroller.NewFakeController(),
		tracker: external.ObjectTracker{Controller: externalfake.Controller{}, Cache: &informertest.FakeInformers{Scheme: w.Scheme}, Scheme: w.Scheme, PredicateLogger: &discard},
	}
}

// GroupMinors is what is known of how machines are updated.
func (w *world) GroupMinors(_ context.Context, _ *clusterv1.Cluster, md *clusterv1.MachineDeployment) (int, error) {
	limit := w.limits[md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]]
	if limit < 0 {
		return 0, errors.New("two policies select it")
	}
	return limit, nil
}

func (w *world) graph(context.Context, *clusterv1.Cluster) (plan.Graph, error) {
	if w.rulesProblem != "" {
		return plan.Graph{}, errors.New(w.rulesProblem)
	}
	return plan.Graph{Versions: w.offered, Stops: w.rules}, nil
}

// extensions is one extension for every hook.
type extensions struct {
	runtimeclient.Client
	world *world
}

func (e *extensions) GetAllExtensions(_ context.Context, hook runtimecatalog.Hook, _ client.Object) ([]string, error) {
	if e.world.absent[runtimecatalog.HookName(hook)] {
		return nil, nil
	}
	return []string{"lifecycle.test"}, nil
}

func (e *extensions) CallAllExtensions(_ context.Context, hook runtimecatalog.Hook, cluster client.Object, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject) error {
	name := runtimecatalog.HookName(hook)
	e.world.called(name, cluster, request)
	answer := e.world.answers[name]
	if answer.failed {
		return errors.New(answer.message)
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(answer.message)
	if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok {
		retry.SetRetryAfterSeconds(int32(answer.retryAfter / time.Second))
	}
	return nil
}

func (e *extensions) CallExtension(_ context.Context, hook runtimecatalog.Hook, cluster client.Object, name string, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject, _ ...runtimeclient.CallExtensionOption) error {
	e.world.called(runtimecatalog.HookName(hook)+" "+name, cluster, request)
	if generate, ok := response.(*runtimehooksv1.GenerateUpgradePlanResponse); ok {
		asked, _ := request.(*runtimehooksv1.GenerateUpgradePlanRequest)
		given, ok := e.world.plans[asked.FromControlPlaneKubernetesVersion]
		if !ok {
			given = e.world.plans[""]
		}
		if given == nil {
			return errors.New("the extension does not answer")
		}
		if *generate = *given; given.Status == runtimehooksv1.ResponseStatusFailure {
			return errors.New("the extension refuses")
		}
	}
	return nil
}

// called notes a call with what its request says besides the Cluster.
func (w *world) called(name string, cluster client.Object, request runtimehooksv1.RequestObject) {
	w.t.Helper()
	encoded, err := json.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	var said struct {
		Cluster struct {
			Metadata struct{ Name string } `json:"metadata"`
			Status   any                   `json:"status"`
		} `json:"cluster"`
	}
	var fields map[string]any
	if err := errors.Join(json.Unmarshal(encoded, &said), json.Unmarshal(encoded, &fields)); err != nil {
		w.t.Fatal(err)
	}
	if _, about := fields["cluster"]; about && (said.Cluster.Metadata.Name != cluster.GetName() || said.Cluster.Status != nil && fmt.Sprint(said.Cluster.Status) != "map[]") {
		w.t.Errorf("%s: the request holds the Cluster %+v", name, said.Cluster)
	}
	var text []string
	for _, field := range []string{"fromKubernetesVersion", "fromControlPlaneKubernetesVersion", "fromWorkersKubernetesVersion", "toKubernetesVersion", "kubernetesVersion"} {
		if value, ok := fields[field]; ok {
			text = append(text, fmt.Sprintf("%s=%v", field, value))
		}
	}
	for _, field := range []string{"controlPlaneUpgrades", "workersUpgrades"} {
		list, ok := fields[field].([]any)
		if !ok {
			continue
		}
		var versions []string
		for _, step := range list {
			if item, ok := step.(map[string]any); ok {
				versions = append(versions, fmt.Sprint(item["version"]))
			}
		}
		text = append(text, field+"="+strings.Join(versions, ","))
	}
	w.calls = append(w.calls, strings.TrimSpace("call "+name+" "+strings.Join(text, " ")))
}

// reconcile reconciles once.
func (w *world) reconcile() (ctrl.Result, error) {
	w.t.Helper()
	logger := funcr.New(func(_, args string) { w.logged = append(w.logged, args) }, funcr.Options{})
	return w.r.Reconcile(ctrl.LoggerInto(w.t.Context(), logger), ctrl.Request{NamespacedName: w.Key})
}

// generated is the end of a generated name.
var generated = regexp.MustCompile(`\b(c-(?:\w-)?)[bcdfghjklmnpqrstvwxz2456789]{5}\b`)

// report says what a reconcile did, and what it has changed of what can be seen.
func (w *world) report(result ctrl.Result, err error) string {
	w.t.Helper()
	var out strings.Builder
	for _, call := range w.calls {
		fmt.Fprintln(&out, call)
	}
	if writes := w.Take(); len(writes) > 0 {
		fmt.Fprintf(&out, "write %s\n", strings.Join(writes, ", "))
	}
	for _, line := range w.logged {
		// Writes stand above already.
		if !strings.Contains(line, "Adding watch on external object") && !strings.Contains(line, "an object of the topology") {
			fmt.Fprintf(&out, "log %s\n", strings.TrimPrefix(line, `"level"=0 "msg"=`))
		}
	}
	w.calls, w.logged = nil, nil
	out.WriteString(w.changes())
	if result.RequeueAfter > 0 {
		fmt.Fprintf(&out, "again after %s\n", result.RequeueAfter)
	}
	if err != nil {
		fmt.Fprintf(&out, "error %v\n", err)
	}
	return cmp.Or(generated.ReplaceAllString(out.String(), "${1}RANDOM"), "nothing\n")
}

// changes says what has changed since it was called last.
func (w *world) changes() string {
	w.t.Helper()
	var out strings.Builder
	seen := map[string]string{}
	for _, fact := range w.facts() {
		seen[fact[0]] = fact[1]
		if w.shown[fact[0]] != fact[1] {
			fmt.Fprintf(&out, "%s: %s\n", fact[0], strings.ReplaceAll(fact[1], "\n", "\n  "))
		}
	}
	for _, gone := range slices.Sorted(func(yield func(string) bool) {
		for name := range w.shown {
			if _, still := seen[name]; !still && !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintf(&out, "%s: none\n", gone)
	}
	w.shown = seen
	return out.String()
}

// facts is what can be seen of the Cluster and its objects.
func (w *world) facts() [][2]string {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := w.Inner.Get(w.t.Context(), w.Key, cluster); err != nil {
		return nil
	}
	var facts [][2]string
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	if ref := cluster.Spec.InfrastructureRef; ref.IsDefined() {
		add("engine", w.Referenced(ref).GetAnnotations()[v1alpha1.EngineAnnotation])
	}
	if ref := cluster.Spec.ControlPlaneRef; ref.IsDefined() {
		object := w.Referenced(ref)
		spec, _ := object.Object["spec"].(map[string]any)
		add("control plane", fmt.Sprint(spec["version"]))
		add("stamp", object.GetAnnotations()[v1alpha1.ChainStepAnnotation])
	}
	for _, group := range w.groups() {
		add(group.name, group.version)
	}
	for _, variable := range cluster.Spec.Topology.Variables {
		add("variable "+variable.Name, string(variable.Value.Raw))
	}
	for _, key := range []string{
		runtimev1.PendingHooksAnnotation, clusterv1.ClusterTopologyUpgradeStepAnnotation, v1alpha1.ChainIntentAnnotation, v1alpha1.ChainProgressAnnotation,
	} {
		add(key[strings.LastIndex(key, "/")+1:], cluster.Annotations[key])
	}
	if _, ok := cluster.Annotations[runtimev1.OkToDeleteAnnotation]; ok {
		add("ok-to-delete", "yes")
	}
	if condition := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition); condition != nil {
		add("condition", strings.TrimSpace(fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)))
	}
	if old := v1beta1conditions.Get(cluster, clusterv1.TopologyReconciledV1Beta1Condition); old != nil {
		add("v1beta1 condition", strings.TrimSpace(fmt.Sprintf("%s %s %s %s", old.Status, old.Severity, old.Reason, old.Message)))
	}
	if status := cluster.Status.ControlPlane; status != nil {
		add("control plane plan", planText(status.UpgradePlan))
	}
	if status := cluster.Status.Workers; status != nil {
		add("workers plan", planText(status.UpgradePlan))
	}
	return facts
}

func planText(steps []clusterv1.StatusUpgradePlanVersion) string {
	var versions []string
	for _, step := range steps {
		versions = append(versions, step.Version)
	}
	return strings.Join(versions, " ")
}

// group is an object of workers.
type group struct {
	name, version string
	object        client.Object
}

// groups are all groups that exist, by name.
func (w *world) groups() []group {
	w.t.Helper()
	deployments, pools := &clusterv1.MachineDeploymentList{}, &clusterv1.MachinePoolList{}
	if err := errors.Join(w.Inner.List(w.t.Context(), deployments), w.Inner.List(w.t.Context(), pools)); err != nil {
		w.t.Fatal(err)
	}
	var groups []group
	for i := range deployments.Items {
		md := &deployments.Items[i]
		groups = append(groups, group{md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], md.Spec.Template.Spec.Version, md})
	}
	for i := range pools.Items {
		mp := &pools.Items[i]
		groups = append(groups, group{mp.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel], mp.Spec.Template.Spec.Version, mp})
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.name, b.name) })
	return groups
}

// arrive has a group's machines run these versions.
func (w *world) arrive(name string, versions []string) {
	w.t.Helper()
	groups := w.groups()
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
	if i < 0 {
		w.t.Fatalf("there is no group %s", name)
	}
	if mp, ok := groups[i].object.(*clusterv1.MachinePool); ok {
		mp.Status.ObservedGeneration, mp.Status.Versions = mp.Generation, nil
		for _, version := range versions {
			mp.Status.Versions = append(mp.Status.Versions, clusterv1.StatusVersion{Version: version, Replicas: 1})
		}
		w.update(mp)
		return
	}
	label := client.MatchingLabels{clusterv1.ClusterTopologyMachineDeploymentNameLabel: name}
	if err := w.Inner.DeleteAllOf(w.t.Context(), &clusterv1.Machine{}, client.InNamespace(w.Key.Namespace), label); err != nil {
		w.t.Fatal(err)
	}
	for i, version := range versions {
		machine := &clusterv1.Machine{}
		machine.Namespace, machine.Name = w.Key.Namespace, fmt.Sprintf("%s-%d", name, i)
		machine.Labels = map[string]string{clusterv1.ClusterNameLabel: w.Key.Name, clusterv1.ClusterTopologyMachineDeploymentNameLabel: name}
		machine.Spec.Version = version
		machine.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
		machine.Status.NodeRef.Name = machine.Name
		if err := w.Inner.Create(w.t.Context(), machine); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) update(object client.Object) {
	w.t.Helper()
	if err := w.Inner.Update(w.t.Context(), object, client.FieldOwner("somebody")); err != nil {
		w.t.Fatal(err)
	}
}
