package pool_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

const (
	// maxTemplates is how many templates a MachineDeployment may have in turn. Each has at most one
	// MachineSet, so that the number of a template names a MachineSet too.
	maxTemplates = 3
	maxMachines  = 12
)

// numbers are the counters in the status of a MachineSet.
type numbers struct{ machines, available, upToDate int8 }

// setSpec is what the MachineDeployment controller writes to a MachineSet.
type setSpec struct {
	replicas int8
	// moveTo is 0 for none, or 1 more than the target. receive has a bit per source, acknowledged
	// a bit per Machine.
	moveTo, receive uint8
	acknowledged    uint16
	// returning has a bit per Machine that goes back to the MachineSet which it left.
	returning          uint16
	noCreate, noUpdate bool
	revision           uint8
	// desired is the annotation about the replicas of the MachineDeployment.
	desired int8
}

// machineSet is a MachineSet in the world.
type machineSet struct {
	exists, deleting bool
	// born orders MachineSets by age.
	born uint8
	setSpec
	status numbers
	// observed says that the status is about the current spec.
	observed bool
	trouble
}

// machine is a Machine with its infrastructure, its bootstrap config and its host.
type machine struct {
	exists bool
	owner  uint8
	// node says that it has a Node, available is its condition. broken stays until it is replaced.
	node, available, broken, deleting bool
	// updating, pending and hook are the three marks of an update in place.
	updating, pending, hook bool
	// left is 0, or 1 more than the MachineSet that the Machine left, or came back to, before its
	// update began.
	left uint8
	// hangs says that the update never ends, overdue that remediation does not wait for it any more.
	hangs, overdue bool
	// infrastructure, bootstrap and spec are the templates that the three objects follow. kubelet
	// is what runs.
	infrastructure, bootstrap, spec, kubelet uint8
	// acknowledged says that the move of the Machine was counted. asked says that a person deleted
	// it.
	acknowledged, asked bool
}

func (m machine) inUpdate() bool { return m.updating || m.hook }

// ready reports whether the Machine is available or will be, after minReadySeconds.
func (m machine) ready() bool { return m.node && !m.broken && !m.inUpdate() }

// serves reports whether work loads can run on the Machine now.
func (m machine) serves() bool { return m.exists && m.available && !m.deleting && !m.inUpdate() }

// deployment is the MachineDeployment.
type deployment struct {
	replicas int8
	template uint8
	paused   bool
	revision uint8
	observed bool
	// open says that the limits of the UpdatePolicy do not count now.
	open bool
	canaries
}

type (
	machineSets [maxTemplates]machineSet
	machines    [maxMachines]machine
)

// view is what a controller reads.
//
//nolint:recvcheck // Methods with a value receiver change their copy.
type view struct {
	md       deployment
	sets     machineSets
	machines machines
	outage   bool
}

// faults bound what goes wrong, and what people do, on one path.
type faults struct {
	crashes, races, lags, swaps, outages              int8
	breaks, deletes, scales, changes, reverts, pauses int8
	hangs, flips, retries                             int8
	fails, sticks, quotas, halts                      int8
}

// scene is a world: a group and its controllers. It is comparable.
type scene struct {
	view
	// staleSets and staleMachines say that the cache shows cachedSets and cachedMachines.
	staleSets, staleMachines bool
	cachedSets               machineSets
	cachedMachines           machines
	// wrote says that a controller wrote objects that its cache does not show yet: it waits. The
	// last one is the MachineDeployment controller.
	wrote [maxTemplates + 1]bool
	// rest is the number of what is left of a reconcile, by controller.
	rest  [maxTemplates + 1]uint16
	stock bool
	// quota says that no Machine can be created.
	quota bool
	// stockRan says that stock was in charge once, most and fewest are the highest and lowest
	// spec.replicas so far (fewest without Machines that were lost while others were deleted), excused
	// is how many available Machines others than the rollout took away.
	stockRan, pausedOnce bool
	most, fewest         int8
	excused              int8
	// late is how many Machines a MachineSet created beyond spec.replicas.
	late int8
	// done is the highest number of Machines of the template that were done, lost is how many Machines
	// others took away. opened says that the limits did not count once, changed that the template or
	// spec.replicas changed.
	done, lost      int8
	opened, changed bool
	// canaryLost says that a canary was remediated in its update, and that nobody asked for a retry,
	// retriedOnce that somebody did, and proven that an update to the template ended well.
	canaryLost, retriedOnce, proven bool
	faults
}

// scenario is where an exploration begins, and its rules.
type scenario struct {
	replicas, surge, unavailable int8
	onDelete, keep, gateOff      bool
	// updatesOnDelete says that the strategy is OnDelete, and that the UpdatePolicy has Machines
	// updated in place. It goes with keep, and Machines are kept while the policy counts.
	updatesOnDelete bool
	// covered[from][to] says which templates an update in place can bridge.
	covered [maxTemplates][maxTemplates]bool
	// scales are the values that people set spec.replicas to.
	scales []int8
	// notBegun says that the template has not changed yet.
	notBegun bool
	// alone turns the comparison with stock off, blind hides the Machines of other MachineSets from
	// MachineSets.
	alone  bool
	blind  bool
	faults faults
	bounds
}

// keeps reports whether Machines are kept now.
func (s scenario) keeps(v *view) bool { return s.keep && (!s.updatesOnDelete || !v.md.open) }

// upwards covers all changes to a higher template.
var upwards = [maxTemplates][maxTemplates]bool{{false, true, true}, {false, false, true}}

// begin is a complete group whose template changes from 0 to 1.
func (s scenario) begin() scene {
	var w scene
	w.md = deployment{replicas: s.replicas, revision: 1, observed: s.notBegun}
	if !s.notBegun {
		w.md.template = 1
	}
	w.sets[0] = machineSet{
		exists: true, born: 1, observed: true, trouble: trouble{read: true},
		setSpec: setSpec{replicas: s.replicas, revision: 1, desired: s.replicas},
		status:  numbers{s.replicas, s.replicas, s.replicas},
	}
	for i := range s.replicas {
		w.machines[i] = machine{exists: true, node: true, available: true}
	}
	w.most, w.fewest, w.faults = s.replicas, s.replicas, s.faults
	return w
}

// read is what a controller sees now.
func (w *scene) read() view {
	v := w.view
	if w.staleSets {
		v.sets = w.cachedSets
	}
	if w.staleMachines {
		v.machines = w.cachedMachines
	}
	return v
}

// catchUp brings the cache up to date.
func (w *scene) catchUp() {
	w.staleSets, w.staleMachines = false, false
	w.cachedSets, w.cachedMachines = machineSets{}, machines{}
	w.wrote = [maxTemplates + 1]bool{}
}

// owned counts the Machines of a MachineSet.
func (v *view) owned(set uint8) (n int8) {
	for _, m := range v.machines {
		if m.exists && m.owner == set {
			n++
		}
	}
	return n
}

func (v *view) total() (n int8) {
	for set := range uint8(maxTemplates) {
		n += v.owned(set)
	}
	return n
}

func (v *view) serving() (n int8) {
	for _, m := range v.machines {
		if m.serves() {
			n++
		}
	}
	return n
}

// count is what a MachineSet controller counts.
func (v *view) count(set uint8) (n numbers) {
	for _, m := range v.machines {
		if !m.exists || m.owner != set {
			continue
		}
		n.machines++
		if m.inUpdate() {
			continue
		}
		if m.available {
			n.available++
		}
		if m.spec == v.md.template {
			n.upToDate++
		}
	}
	return n
}

// MachineSets are made at dawn, and it is noon ever after.
var (
	dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	noon = dawn.Add(9 * time.Hour)
)

// suffix is such that the names of MachineSets are not in the order of their age.
func suffix(set uint8) string   { return fmt.Sprintf("%05d", 9-set) }
func setName(set uint8) string  { return pool.NewSetName("md-", suffix(set)) }
func machineName(m int) string  { return fmt.Sprintf("m%02d", m) }
func versionOf(t uint8) string  { return fmt.Sprintf("v1.3%d.0", t) }
func slotOf(name string) uint8  { return '9' - name[len(name)-1] }
func machineOf(name string) int { return int(name[1]-'0')*10 + int(name[2]-'0') }
func namesIn(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
func has[T uint8 | uint16](bits T, i int) bool { return bits>>i&1 == 1 }

// group turns what was read into the objects that the rules read.
func (s scenario) group(v view) pool.Group {
	g := pool.Group{
		MachineDeployment: s.deployment(v), Now: noon, Suffix: suffix(v.md.template),
		TemplatesExist: true, InPlaceUpdates: !s.gateOff,
		Keep: s.keeps(&v), UpdateOnDelete: s.updatesOnDelete && s.keeps(&v),
	}
	if !v.md.open {
		g.Limits = s.limits()
	}
	for i, set := range v.sets {
		if set.exists {
			g.MachineSets = append(g.MachineSets, s.machineSet(v, uint8(i)))
		}
	}
	for i, m := range v.machines {
		if m.exists {
			g.Machines = append(g.Machines, m.object(v, i))
		}
	}
	return g
}

func (s scenario) deployment(v view) *clusterv1.MachineDeployment {
	d := v.md
	md := &clusterv1.MachineDeployment{}
	md.Namespace, md.Name, md.UID = "ns", "md", "md"
	md.Annotations = map[string]string{clusterv1.RevisionAnnotation: fmt.Sprint(d.revision)}
	d.annotate(md.Annotations)
	md.Spec.Replicas = new(int32(d.replicas))
	md.Status.Replicas = new(int32(v.reported().machines))
	md.Spec.Template.Spec.Version = versionOf(d.template)
	md.Spec.Paused = new(d.paused)
	if s.onDelete || s.updatesOnDelete {
		md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		return md
	}
	md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(int32(s.surge)))
	md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(int32(s.unavailable)))
	return md
}

func (s scenario) machineSet(v view, i uint8) *clusterv1.MachineSet {
	from := v.sets[i]
	set := &clusterv1.MachineSet{}
	set.Namespace, set.Name = "ns", setName(i)
	set.CreationTimestamp = metav1.NewTime(dawn.Add(time.Duration(from.born) * time.Minute))
	set.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: suffix(i)}
	set.Annotations = map[string]string{
		clusterv1.RevisionAnnotation:        fmt.Sprint(from.revision),
		clusterv1.DesiredReplicasAnnotation: fmt.Sprint(from.desired),
		clusterv1.MaxReplicasAnnotation:     fmt.Sprint(from.desired + s.surge),
	}
	for key, value := range map[string]string{
		clusterv1.MachineSetMoveMachinesToMachineSetAnnotation:       from.target(),
		clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: listSets(from.receive),
		clusterv1.AcknowledgedMoveAnnotation:                         listMachines(from.acknowledged),
		v1alpha1.ReturnMachinesAnnotation:                            listMachines(from.returning),
		v1alpha1.NoUpdateAnnotation:                                  map[bool]string{true: "NotCovered"}[from.noUpdate],
	} {
		if value != "" {
			set.Annotations[key] = value
		}
	}
	if from.noCreate {
		set.Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
	}
	set.Spec.Replicas = new(int32(from.replicas))
	set.Spec.Template.Spec.Version = versionOf(i)
	set.Generation = 2
	set.Status.ObservedGeneration = 1
	if from.observed {
		set.Status.ObservedGeneration = 2
	}
	from.describe(set)
	set.Status.Replicas = new(int32(from.status.machines))
	set.Status.AvailableReplicas = new(int32(from.status.available))
	set.Status.UpToDateReplicas = new(int32(from.status.upToDate))
	if from.deleting {
		set.DeletionTimestamp = new(metav1.NewTime(dawn))
	}
	return set
}

func (s setSpec) target() string {
	if s.moveTo == 0 {
		return ""
	}
	return setName(s.moveTo - 1)
}

func listSets(bits uint8) string {
	var list []string
	for i := range uint8(maxTemplates) {
		if has(bits, int(i)) {
			list = append(list, setName(i))
		}
	}
	return strings.Join(list, ",")
}

func listMachines(bits uint16) string {
	var list []string
	for i := range maxMachines {
		if has(bits, i) {
			list = append(list, machineName(i))
		}
	}
	return strings.Join(list, ",")
}

func (m machine) object(v view, i int) *clusterv1.Machine {
	object := &clusterv1.Machine{}
	object.Namespace, object.Name = "ns", machineName(i)
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: setName(m.owner),
		Controller: new(true),
	}}
	object.Annotations = map[string]string{}
	if m.updating {
		object.Annotations[clusterv1.UpdateInProgressAnnotation] = ""
	}
	if m.left != 0 {
		object.Annotations[v1alpha1.MovedFromAnnotation] = pool.MovedFrom(object, setName(m.left-1),
			setName(m.owner))
	}
	if m.pending {
		object.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation] = ""
	}
	if m.hangs {
		object.Annotations[v1alpha1.UpdateProgressAnnotation] = "{}"
	}
	if m.hook {
		object.Annotations[runtimev1.PendingHooksAnnotation] = "UpdateMachine"
	}
	if m.deleting {
		object.DeletionTimestamp = new(metav1.NewTime(dawn))
	}
	if m.node {
		object.Status.NodeRef.Name = object.Name
		object.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: versionOf(m.kubelet)}
	}
	object.Spec.Version = versionOf(m.spec)
	object.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.MachineAvailableCondition, Status: status(m.available)},
		{Type: clusterv1.MachineReadyCondition, Status: status(m.ready())},
		{Type: clusterv1.MachineUpToDateCondition, Status: status(m.spec == v.md.template)},
	}
	since := metav1.NewTime(noon)
	if m.overdue {
		since = metav1.NewTime(noon.Add(-pool.DefaultHoldLimit))
	}
	if m.inUpdate() {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue,
			LastTransitionTime: since,
		})
	}
	if m.broken {
		object.Status.Conditions = append(object.Status.Conditions,
			metav1.Condition{
				Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
				LastTransitionTime: since,
			},
			metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse})
	}
	return object
}

func status(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// spec reads back from an object what the MachineDeployment controller writes.
func spec(set *clusterv1.MachineSet) setSpec {
	a := set.Annotations
	s := setSpec{
		replicas: int8(*set.Spec.Replicas), noCreate: a[clusterv1.DisableMachineCreateAnnotation] == "true",
	}
	s.noUpdate = a[v1alpha1.NoUpdateAnnotation] != ""
	_, _ = fmt.Sscan(a[clusterv1.RevisionAnnotation], &s.revision)
	_, _ = fmt.Sscan(a[clusterv1.DesiredReplicasAnnotation], &s.desired)
	if to := a[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]; to != "" {
		s.moveTo = slotOf(to) + 1
	}
	for _, name := range namesIn(a[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation]) {
		s.receive |= 1 << slotOf(name)
	}
	s.acknowledged = machineBits(namesIn(a[clusterv1.AcknowledgedMoveAnnotation]))
	s.returning = machineBits(namesIn(a[v1alpha1.ReturnMachinesAnnotation]))
	return s
}

func machineBits(list []string) (bits uint16) {
	for _, name := range list {
		bits |= 1 << machineOf(name)
	}
	return bits
}
