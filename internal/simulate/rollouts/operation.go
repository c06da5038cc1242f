package rollouts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// kind is a write to one object.
type kind uint8

const (
	// Of the MachineDeployment controller.
	writeSet kind = iota + 1
	writeRecord
	finish
	cleanSet
	// Of MachineSet controllers.
	writeInfrastructure
	writeBootstrap
	writeMachine
	markHook
	createMachine
	deleteMachine
	remediate
	recordCanaries
	returnMachine
	moveMachine
	writeStatus
	writePaused
	removeSet
)

// kinds begin the texts of operations, by kind.
var kinds = [...]string{
	"", "writes ms", "writes the record of canaries", "ends the reconcile", "deletes empty ms",
	"infrastructure of ", "bootstrap of ", "spec of ", "hook of ", "creates a Machine", "deletes ",
	"remediates ", "records canaries", "returns ", "moves ", "status", "notes the pause", "goes",
}

// operation is one write, with all that it needs.
type operation struct {
	kind kind
	set  uint8
	// machine is the Machine that is written, to the template to, or moved to the MachineSet to.
	machine, to uint8
	spec        setSpec
	// acknowledged are the Machines whose move the plan counts for the first time.
	acknowledged uint16
	status       numbers
	revision     uint8
	// update says that the MachineSet exists: the write fails if it does not any more.
	update bool
	// before is spec.replicas of the MachineSet that was read.
	before int8
	// record takes the place of that on the MachineDeployment, which must be as it was read.
	record canaries
	read   deployment
	// failed says that the reconcile ends with an error.
	failed bool
}

func (o operation) String() string {
	switch o.kind { //nolint:exhaustive // The other kinds are handled elsewhere.
	case writeSet:
		return fmt.Sprintf("%s%d (%s)", kinds[o.kind], o.set, o.spec.written())
	case cleanSet:
		return fmt.Sprintf("%s%d", kinds[o.kind], o.set)
	case createMachine, writeRecord, recordCanaries, finish, removeSet, writePaused:
		return kinds[o.kind]
	case writeStatus:
		return fmt.Sprintf("status %s", o.status.text())
	}
	return kinds[o.kind] + machineName(int(o.machine))
}

// maxOperations is how many operations of one reconcile the world has room for.
const maxOperations = 28

// intern returns a number for operations that are not executed yet; 0 for none. It keeps worlds
// small.
func (e *explorer) intern(list []operation) uint16 {
	if len(list) == 0 {
		return 0
	}
	var key [maxOperations]operation
	if copy(key[:], list) < len(list) || len(e.lists) >= math.MaxUint16 {
		e.err = errFull
		return 0
	}
	id, known := e.rests[key]
	if !known {
		e.lists = append(e.lists, list)
		id = uint16(len(e.lists))
		e.rests[key] = id
	}
	return id
}

// rest are the operations with a number.
func (e *explorer) rest(id uint16) []operation {
	if id == 0 {
		return nil
	}
	return e.lists[id-1]
}

// mentioned are the Machines that an operation refers to.
func (o operation) mentioned() (bits uint16) {
	if o.kind >= writeInfrastructure && o.kind <= moveMachine && o.kind != createMachine {
		bits = 1 << o.machine
	}
	return bits | o.record.failed | o.spec.acknowledged | o.spec.returning | o.acknowledged
}

// apply executes one operation. It returns false if the API server refuses it, and says what
// invariant it breaks.
func (e *explorer) apply(w *scene, by int, o operation) (ok bool, violation string) {
	switch o.kind { //nolint:exhaustive // The other kinds are handled elsewhere.
	case writeSet:
		return e.writeSet(w, by, o)
	case writeRecord, recordCanaries:
		if w.md != o.read {
			return false, ""
		}
		w.md.canaries = o.record
		return true, ""
	case finish:
		w.md.revision, w.md.observed = o.revision, true
		return true, ""
	case cleanSet:
		w.wrote[by] = w.staleSets
		return true, e.cleanSet(w, o.set)
	case writeStatus:
		w.sets[o.set].note(o, w.owned(o.set))
		return true, ""
	case writePaused:
		w.sets[o.set].read = w.sets[o.set].replicas == o.before
		return true, ""
	case removeSet:
		w.sets[o.set] = machineSet{}
		if w.owned(o.set) > 0 {
			return true, fmt.Sprintf("ms%d is gone, and has Machines", o.set)
		}
		return true, ""
	}
	w.wrote[by] = w.staleMachines
	if o.kind == createMachine {
		return true, cmp.Or(e.create(w, o), e.checkLimits(w, o))
	}
	if !w.machines[o.machine].exists {
		return false, ""
	}
	return e.applyToMachine(w, o)
}

// applyToMachine executes an operation on a Machine that exists.
func (e *explorer) applyToMachine(w *scene, o operation) (ok bool, violation string) {
	m := &w.machines[o.machine]
	switch o.kind { //nolint:exhaustive // The other kinds are handled elsewhere.
	case writeInfrastructure:
		m.infrastructure = o.to
	case writeBootstrap:
		m.bootstrap = o.to
	case writeMachine:
		m.spec = o.to
	case markHook:
		return true, beginUpdate(m, o)
	case deleteMachine, remediate:
		w.loseCanary(e, o.machine)
		return true, cmp.Or(e.remove(w, o), e.checkLimits(w, o))
	case returnMachine:
		if m.left == 0 || m.owner != o.set {
			return false, "" // The resourceVersion is another one: the update has begun.
		}
		return true, e.takeBack(w, o)
	case moveMachine:
		return true, cmp.Or(e.move(w, o), e.checkLimits(w, o), e.checkCanary(w, o))
	}
	return true, ""
}

// beginUpdate marks the Machine for its updater. One that came back has nothing to update.
func beginUpdate(m *machine, o operation) (violation string) {
	m.hook, m.pending = true, false
	if m.infrastructure != m.spec || m.bootstrap != m.spec {
		return fmt.Sprintf("the update of %s begins before its objects agree",
			machineName(int(o.machine)))
	}
	if m.left == m.owner+1 {
		m.updating, m.left = false, 0
	}
	return ""
}

func (e *explorer) writeSet(w *scene, by int, o operation) (ok bool, violation string) {
	set := &w.sets[o.set]
	if o.update && !set.exists {
		return false, ""
	}
	w.wrote[by] = w.staleSets
	if !set.exists {
		*set = machineSet{exists: true, born: w.youngest() + 1}
	}
	if set.replicas != o.spec.replicas {
		set.observed, set.read = false, false
	}
	set.setSpec = o.spec
	return true, e.acknowledge(w, o)
}

// youngest is the highest born of all MachineSets.
func (w *scene) youngest() (born uint8) {
	for _, set := range w.sets {
		born = max(born, set.born)
	}
	return born
}

// clean removes what equal worlds may differ in: slots of Machines and MachineSets that are gone.
func (w *scene) clean() {
	for i := range w.machines {
		if !w.machines[i].exists {
			w.machines[i] = machine{}
		}
	}
	for i := range w.sets {
		if !w.sets[i].exists {
			w.sets[i] = machineSet{}
		}
	}
}

// free returns a Machine that does not exist, and that nothing refers to; false if there is none.
func (e *explorer) free(w *scene) (i int, ok bool) {
	used := w.md.failed
	for _, set := range slices.Concat(w.sets[:], w.cachedSets[:]) {
		used |= set.acknowledged
	}
	for _, r := range w.rest {
		for _, o := range e.rest(r) {
			used |= o.mentioned()
		}
	}
	for i := range w.machines {
		if !w.machines[i].exists && !w.cachedMachines[i].exists && !has(used, i) {
			return i, true
		}
	}
	return 0, false
}
