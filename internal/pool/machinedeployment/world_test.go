package machinedeployment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

// limited returns a policy that has limits and replaces Machines.
func limited(l pool.Limits) policy.Policy {
	l.Name = "p"
	return policy.Policy(l)
}

// limit changes the limits of the policy only.
func (w *world) limit(l pool.Limits) {
	l.Name, l.Guarded, l.HandOver = w.policy.Name, w.policy.Guarded, w.policy.HandOver
	w.policy = policy.Policy(l)
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

var key = client.ObjectKey{Namespace: "default", Name: "md"}

// world is a management cluster with one MachineDeployment, the controller, and a model of the
// controllers of MachineSets and Machines.
type world struct {
	*fakeapi.API
	t        *testing.T
	now      time.Time
	r        *Reconciler
	recorder *record.FakeRecorder
	policy   policy.Policy

	// extension answers CanUpdateMachineSet; nil means that there is none.
	extension func(*setRequest, *setResponse) error
	questions int
	// hangs says that the extension does not answer; otherwise it takes as long as slow.
	hangs bool
	slow  time.Duration
	// handlers are the names of the extensions; nil means one.
	handlers []string

	// taker takes the Machines of the group over.
	taker *taker

	// reborn is called when a process has crashed.
	reborn func()

	suffixes, machinesMade int
	// created, deleted and moved count what happened to Machines.
	created, deleted, moved int
	// policyNow is the policy that the cache does not show yet; nil if it shows all. asked counts the
	// questions for it.
	policyNow *policy.Policy
	asked     int
	// frozen are Machines whose update in place never ends.
	frozen bool
	faults
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		API: fakeapi.New(t, "testdata/world.yaml",
			&clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}, &clusterv1.Machine{}),
		t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), recorder: record.NewFakeRecorder(1000),
	}
	w.taker = &taker{w: w}
	w.restart()
	return w
}

// restart forgets everything that a process remembers.
func (w *world) restart() {
	w.t.Helper()
	r, err := New(Options{
		Client: w.Client, Runtime: &extension{w: w}, Recorder: w.recorder, InPlace: true,
		Now:           func() time.Time { return w.now },
		PoliciesExist: func() (bool, error) { return true, nil },
		HandOvers:     w.taker,
		Keeps: func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (policy.Policy, error) {
			return w.policy, nil
		},
		KeepsNow: func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (policy.Policy, error) {
			w.asked++
			return *cmp.Or(w.policyNow, &w.policy), nil
		},
	}, capicontroller.NewFakeController())
	if err != nil {
		w.t.Fatal(err)
	}
	r.random = func(n int) string {
		w.suffixes++
		return fmt.Sprintf("%0*d", n, w.suffixes)
	}
	w.r = r
}

// extension is the extension for CanUpdateMachineSet.
type extension struct {
	runtimeclient.Client
	w *world
}

func (e *extension) GetAllExtensions(
	context.Context, runtimecatalog.Hook, client.Object,
) ([]string, error) {
	if e.w.extension == nil || e.w.handlers != nil {
		return e.w.handlers, nil
	}
	return []string{"can-update.test"}, nil
}

func (e *extension) CallExtension(
	ctx context.Context, _ runtimecatalog.Hook, _ client.Object, _ string,
	request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject,
	_ ...runtimeclient.CallExtensionOption,
) error {
	e.w.questions++
	if e.w.hangs || e.w.slow > 0 {
		if err := e.w.wait(ctx); err != nil {
			return err
		}
	}
	in, isRequest := request.(*runtimehooksv1.CanUpdateMachineSetRequest)
	out, isResponse := response.(*runtimehooksv1.CanUpdateMachineSetResponse)
	if !isRequest || !isResponse {
		return fmt.Errorf("%T and %T are of another hook", request, response)
	}
	return e.w.extension(in, out)
}

// coverAll is an extension that covers versions and sizes.
func coverAll(
	in *runtimehooksv1.CanUpdateMachineSetRequest, out *runtimehooksv1.CanUpdateMachineSetResponse,
) error {
	version := in.Desired.MachineSet.Spec.Template.Spec.Version
	out.MachineSetPatch = runtimehooksv1.Patch{
		PatchType: runtimehooksv1.JSONMergePatchType,
		Patch:     fmt.Appendf(nil, `{"spec":{"template":{"spec":{"version":%q}}}}`, version),
	}
	out.InfrastructureMachineTemplatePatch = runtimehooksv1.Patch{
		PatchType: runtimehooksv1.JSONMergePatchType, Patch: in.Desired.InfrastructureMachineTemplate.Raw,
	}
	return nil
}

// reconcile runs the controller once.
func (w *world) reconcile() (ctrl.Result, error) {
	w.now = w.now.Add(time.Second)
	return w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
}

// mustReconcile runs the controller once and returns the writes.
func (w *world) mustReconcile() []string {
	w.t.Helper()
	w.Take()
	if _, err := w.reconcile(); err != nil {
		w.t.Fatal(err)
	}
	return w.Take()
}

func (w *world) md() *clusterv1.MachineDeployment {
	w.t.Helper()
	md := &clusterv1.MachineDeployment{}
	if err := w.Inner.Get(w.t.Context(), key, md); err != nil {
		w.t.Fatal(err)
	}
	return md
}

// edit changes the MachineDeployment as a person does.
func (w *world) edit(change func(*clusterv1.MachineDeployment)) {
	w.t.Helper()
	md := w.md()
	change(md)
	if err := w.Inner.Update(w.t.Context(), md, client.FieldOwner("kubectl")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) upgrade() {
	w.t.Helper()
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.34.0" })
}

// sets returns the MachineSets, oldest first.
func (w *world) sets() []*clusterv1.MachineSet {
	w.t.Helper()
	list := &clusterv1.MachineSetList{}
	if err := w.Inner.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	sets := pointersTo(list.Items)
	slices.SortFunc(sets, func(a, b *clusterv1.MachineSet) int {
		return strings.Compare(a.Name, b.Name)
	})
	return sets
}

func (w *world) machines() []*clusterv1.Machine {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := w.Inner.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	return pointersTo(list.Items)
}

// settle runs the controller and the model until nothing changes. It checks the budget after each
// step.
func (w *world) settle() {
	w.t.Helper()
	for range 200 {
		before := w.versions()
		if _, err := w.reconcile(); err != nil {
			w.t.Fatal(err)
		}
		w.playSets()
		w.checkBudget()
		if maps.Equal(before, w.versions()) {
			return
		}
	}
	w.t.Fatalf("the group does not settle:\n%s", w.picture())
}

// settleWithCrashes is settle for a controller that may fail.
func (w *world) settleWithCrashes() {
	w.t.Helper()
	for range 400 {
		before := w.versions()
		_, err := w.reconcile()
		if err != nil {
			w.restart()
			w.reborn()
		}
		w.playSets()
		w.checkBudget()
		if err == nil && maps.Equal(before, w.versions()) {
			return
		}
	}
	w.t.Fatalf("the group does not settle:\n%s", w.picture())
}

// versions are the resource versions of all objects.
func (w *world) versions() map[string]string {
	w.t.Helper()
	versions := map[string]string{}
	mds := &clusterv1.MachineDeploymentList{}
	if err := w.Inner.List(w.t.Context(), mds); err != nil {
		w.t.Fatal(err)
	}
	for _, md := range mds.Items {
		versions["md "+md.Name] = md.ResourceVersion
	}
	for _, set := range w.sets() {
		versions["set "+set.Name] = set.ResourceVersion
	}
	for _, m := range w.machines() {
		versions["machine "+m.Name] = m.ResourceVersion
	}
	return versions
}

// checkBudget fails if there are more Machines than maxSurge allows.
func (w *world) checkBudget() {
	w.t.Helper()
	mds := &clusterv1.MachineDeploymentList{}
	if err := w.Inner.List(w.t.Context(), mds); err != nil || len(mds.Items) == 0 {
		return
	}
	budget, err := pool.BudgetOf(&mds.Items[0])
	if err != nil {
		w.t.Fatal(err)
	}
	if n := len(w.machines()); n > int(max(budget.Replicas+budget.Surge, 3)) {
		w.t.Fatalf("%d Machines exist:\n%s", n, w.picture())
	}
}

// picture describes the end of a test without names of Machines. MachineSets have their version as a
// name, because crashes change names.
func (w *world) picture() string {
	w.t.Helper()
	var lines, names []string
	for _, set := range w.sets() {
		names = append(names, set.Name, set.Spec.Template.Spec.Version)
		versions := map[string]int{}
		for _, m := range w.machines() {
			if pool.Owns(set, m) {
				versions[m.Spec.Version]++
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s: %d of %d, %v, revision %s%s",
			set.Spec.Template.Spec.Version, set.Spec.Template.Spec.InfrastructureRef.Name,
			*set.Status.Replicas, *set.Spec.Replicas, versions,
			set.Annotations[clusterv1.RevisionAnnotation], marksOf(set)))
	}
	return strings.NewReplacer(names...).Replace(strings.Join(lines, "\n"))
}

func marksOf(set *clusterv1.MachineSet) string {
	marks := ""
	for _, mark := range []struct{ name, key string }{
		{"moves to", clusterv1.MachineSetMoveMachinesToMachineSetAnnotation},
		{"receives from", clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation},
		{"acknowledged", clusterv1.AcknowledgedMoveAnnotation},
	} {
		if value, ok := set.Annotations[mark.key]; ok {
			marks += fmt.Sprintf(", %s %s", mark.name, value)
		}
	}
	return marks
}

// playSets lets the model of the MachineSet controller act once on each MachineSet.
func (w *world) playSets() {
	w.t.Helper()
	for _, set := range w.sets() {
		if set.DeletionTimestamp.IsZero() && len(set.Finalizers) == 0 {
			set.Finalizers = []string{clusterv1.MachineSetFinalizer}
			if err := w.Inner.Update(w.t.Context(), set); err != nil {
				w.t.Fatal(err)
			}
		}
		w.playUpdates(set)
		w.playScale(set)
	}
	for _, set := range w.sets() {
		w.playStatus(set)
	}
}

// playUpdates ends updates of Machines whose move the MachineDeployment has counted.
func (w *world) playUpdates(set *clusterv1.MachineSet) {
	counted := strings.Split(set.Annotations[clusterv1.AcknowledgedMoveAnnotation], ",")
	for _, m := range w.owned(set) {
		_, pending := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]
		_, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
		switch {
		case pending && slices.Contains(counted, m.Name):
			delete(m.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
			w.update(m)
		case !pending && updating && !w.frozen:
			delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
			m.Spec.Version = set.Spec.Template.Spec.Version
			w.update(m)
		}
	}
}

func (w *world) owned(set *clusterv1.MachineSet) []*clusterv1.Machine {
	return slices.DeleteFunc(w.machines(), func(m *clusterv1.Machine) bool {
		return !pool.Owns(set, m)
	})
}

// playScale creates, deletes or moves Machines.
func (w *world) playScale(set *clusterv1.MachineSet) {
	owned := w.owned(set)
	var settled []*clusterv1.Machine
	for _, m := range owned {
		if _, pending := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]; !pending {
			settled = append(settled, m)
		}
	}
	target := set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
	if names := set.Annotations[v1alpha1.ReturnMachinesAnnotation]; names != "" {
		settled = slices.DeleteFunc(settled, func(m *clusterv1.Machine) bool {
			return !slices.Contains(strings.Split(names, ","), m.Name)
		})
		settled = append(settled, make([]*clusterv1.Machine, int(*set.Spec.Replicas))...)
	}
	replicas := int(*set.Spec.Replicas)
	if !set.DeletionTimestamp.IsZero() {
		replicas = 0
	}
	for _, m := range settled[:max(len(settled)-replicas, 0)] {
		switch {
		case !set.DeletionTimestamp.IsZero() || target == "":
			w.deleted++
			if err := w.Inner.Delete(w.t.Context(), m); err != nil {
				w.t.Fatal(err)
			}
		case w.accepts(target, set.Name):
			w.move(m, target)
		}
	}
	disabled := set.Annotations[clusterv1.DisableMachineCreateAnnotation] == "true"
	if !set.DeletionTimestamp.IsZero() || disabled {
		return
	}
	for range int(*set.Spec.Replicas) - len(settled) {
		w.create(set)
	}
}

func (w *world) accepts(target, from string) bool {
	for _, set := range w.sets() {
		if set.Name == target {
			list := set.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation]
			return slices.Contains(strings.Split(list, ","), from)
		}
	}
	return false
}

func (w *world) move(m *clusterv1.Machine, target string) {
	w.moved++
	for _, set := range w.sets() {
		if set.Name != target {
			continue
		}
		m.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet")),
		}
		m.Annotations = map[string]string{
			clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: "",
		}
		w.update(m)
	}
}

func (w *world) create(set *clusterv1.MachineSet) {
	if w.refuses(w) {
		return
	}
	w.created++
	w.machinesMade++
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("m-%03d", w.machinesMade), Namespace: "default",
			Labels: map[string]string{"pool": "md"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet")),
			},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	if err := w.Inner.Create(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{
		clusterv1.MachineAvailableCondition, clusterv1.MachineUpToDateCondition,
		clusterv1.MachineReadyCondition,
	} {
		conditions.Set(m, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	m.Status.NodeRef.Name = m.Name
	if err := w.Inner.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(m *clusterv1.Machine) {
	w.t.Helper()
	if err := w.Inner.Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}
