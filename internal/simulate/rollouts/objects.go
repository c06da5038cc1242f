package rollouts

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

// MachineSets are created within minutes after dawn. The rules are asked at noon.
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
func (s *Scenario) group(v view) pool.Group {
	g := pool.Group{
		MachineDeployment: s.deployment(v), Now: noon, Suffix: suffix(v.md.template),
		TemplatesExist: true, InPlaceUpdates: !s.gateOff,
		Keep: s.keeps(&v), UpdateOnDelete: s.UpdatesOnDelete && s.keeps(&v),
	}
	if !v.md.open {
		g.Limits = s.rules(g.UpdateOnDelete)
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

func (s *Scenario) deployment(v view) *clusterv1.MachineDeployment {
	d := v.md
	md := &clusterv1.MachineDeployment{}
	md.Namespace, md.Name, md.UID = "ns", "md", "md"
	md.Annotations = map[string]string{clusterv1.RevisionAnnotation: fmt.Sprint(d.revision)}
	d.annotate(md.Annotations)
	md.Spec.Replicas = new(int32(d.replicas))
	md.Status.Replicas = new(int32(v.reported().machines))
	md.Spec.Template.Spec.Version = versionOf(d.template)
	md.Spec.Paused = new(d.paused)
	if s.OnDelete || s.UpdatesOnDelete {
		md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		return md
	}
	md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(int32(s.Surge)))
	md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(int32(s.Unavailable)))
	return md
}

func (s *Scenario) machineSet(v view, i uint8) *clusterv1.MachineSet {
	from := v.sets[i]
	set := &clusterv1.MachineSet{}
	set.Namespace, set.Name = "ns", setName(i)
	set.CreationTimestamp = metav1.NewTime(bornAt(from.born))
	set.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: suffix(i)}
	set.Annotations = map[string]string{
		clusterv1.RevisionAnnotation:        fmt.Sprint(from.revision),
		clusterv1.DesiredReplicasAnnotation: fmt.Sprint(from.desired),
		clusterv1.MaxReplicasAnnotation:     fmt.Sprint(from.desired + s.Surge),
	}
	for key, value := range map[string]string{
		clusterv1.MachineSetMoveMachinesToMachineSetAnnotation:       from.target(),
		clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: listSets(from.receive),
		clusterv1.AcknowledgedMoveAnnotation:                         listMachines(from.acknowledged),
		v1alpha1.ReturnMachinesAnnotation:                            listMachines(from.returning),
		v1alpha1.NoUpdateAnnotation:                                  from.uncovered(),
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

// uncovered is why Machines of the MachineSet are not updated in place; empty if they may be.
func (s setSpec) uncovered() string {
	if s.noUpdate {
		return "NotCovered"
	}
	return ""
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

// bornAt is when a MachineSet was created.
func bornAt(born uint8) time.Time { return dawn.Add(time.Duration(born) * time.Minute) }

func (m machine) object(v view, i int) *clusterv1.Machine {
	object := &clusterv1.Machine{}
	object.Namespace, object.Name = "ns", machineName(i)
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: setName(m.owner),
		Controller: new(true),
	}}
	object.Annotations = map[string]string{}
	if m.made > 0 {
		object.CreationTimestamp = metav1.NewTime(bornAt(m.made).Add(time.Second))
	}
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
		replicas: int8(*set.Spec.Replicas),
		noCreate: a[clusterv1.DisableMachineCreateAnnotation] == "true",
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
