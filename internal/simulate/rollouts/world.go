package rollouts

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
	// made is the age of the MachineSet that created the Machine in a kept group, as born; 0 at the
	// beginning. The rules must not take such a Machine for one that was updated.
	made uint8
}

func (m machine) inUpdate() bool { return m.updating || m.hook }

// runsUpdate reports whether an updater is at work.
func (m machine) runsUpdate() bool { return m.updating && m.hook && !m.deleting }

// becomesAvailable reports whether nothing keeps the Machine from that.
func (m machine) becomesAvailable() bool {
	return !m.available && !m.broken && !m.deleting && !m.inUpdate()
}

// inFlight reports whether a rollout takes the Machine away or waits for it.
func (m machine) inFlight() bool {
	return m.exists && (m.deleting && !m.asked || !m.available && !m.broken)
}

// agrees reports whether all that makes the Machine follows the template of its owner.
func (m machine) agrees() bool {
	type templates struct{ infrastructure, bootstrap, spec, kubelet uint8 }
	have := templates{m.infrastructure, m.bootstrap, m.spec, m.kubelet}
	return have == templates{m.owner, m.owner, m.owner, m.owner}
}

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
	// open says that the limits of the UpdatePolicy do not count now. If it has Machines with the
	// strategy OnDelete updated in place, the whole policy does not count.
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
	// stockRan says that stock was in charge once.
	stockRan bool
	// pausedOnce says that the group was paused once.
	pausedOnce bool
	// most is the highest spec.replicas so far.
	most int8
	// fewest is the lowest spec.replicas so far, minus the Machines that were lost while others were
	// being deleted.
	fewest int8
	// excused is how many available Machines may be missing for other reasons than the rollout.
	excused int8
	// late is how many Machines a MachineSet created beyond spec.replicas.
	late int8
	// done is the highest number of Machines of the template that were done.
	done int8
	// lost is how many Machines others took away, plus those that people added to spec.replicas.
	lost int8
	// opened says that the limits of the UpdatePolicy did not count once.
	opened bool
	// changed says that the template has changed since Begin.
	changed bool
	// canaryLost says that a canary was remediated in its update, and that nobody asked for a retry.
	canaryLost bool
	// retriedOnce says that a person asked for a retry since the template changed.
	retriedOnce bool
	// proven says that an update to the template ended well.
	proven bool
	Faults
}

// Begin is a complete group whose template changes from 0 to 1.
func (e *explorer) Begin() scene {
	var w scene
	w.md = deployment{replicas: e.Replicas, revision: 1, observed: e.notBegun}
	if !e.notBegun {
		w.md.template = 1
	}
	w.sets[0] = machineSet{
		exists: true, born: 1, observed: true, trouble: trouble{read: true},
		setSpec: setSpec{replicas: e.Replicas, revision: 1, desired: e.Replicas},
		status:  numbers{e.Replicas, e.Replicas, e.Replicas},
	}
	for i := range e.Replicas {
		w.machines[i] = machine{exists: true, node: true, available: true}
	}
	w.most, w.fewest, w.Faults = e.Replicas, e.Replicas, e.Faults
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
