package cover

import (
	"encoding/json"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Scope says whether a difference is between Machines or between MachineSets.
type Scope int

// The scopes.
const (
	// Machine: the objects are a Machine, its infrastructure machine and its bootstrap config; /spec counts.
	Machine Scope = iota
	// MachineSet: the objects are a MachineSet and the templates of infrastructure and bootstrap; /spec/template/spec counts.
	MachineSet
)

// Part is one of the three objects that make a machine.
type Part = record.Part

// The parts, in the order in which they are reported.
const (
	PartMachine        = record.PartMachine
	PartInfrastructure = record.PartInfrastructure
	PartBootstrap      = record.PartBootstrap
)

// Objects are the three objects of a machine, or of a MachineSet, as JSON, with apiVersion, kind, metadata and spec. Bootstrap
// is empty where there is none.
type Objects struct {
	Machine, Infrastructure, Bootstrap json.RawMessage
}

// PatchType is the format of a Patch.
type PatchType string

// The patch types of Cluster API.
const (
	JSONPatch      PatchType = "JSONPatch"
	JSONMergePatch PatchType = "JSONMergePatch"
)

// Patch changes one object. The zero value changes nothing.
type Patch struct {
	Type PatchType
	Data []byte
}

// Patches is what an updater answers: how the current objects look once it has run.
type Patches struct {
	Machine, Infrastructure, Bootstrap Patch
	// Notes say, for people, why the updater does not cover more.
	Notes []string
	// Warnings say, for people, what the updater covers although it does not know whether that succeeds,
	// and what to do.
	Warnings []string
}

// Answer is the answer to CanUpdateMachine and CanUpdateMachineSet.
type Answer struct {
	// Patches are applied to the current objects by Cluster API. If they then equal the desired ones,
	// it updates in place.
	Patches Patches
	// Message says what was decided, for people.
	Message string
}

// Updater is what a Coverage must know about an updater.
type Updater struct {
	Name string
	// MaxMinors is how many minors it moves a kubelet at once; 0 means any number.
	MaxMinors int
}

// Pointer names a field; see record.Pointer.
type Pointer = record.Pointer

// Ignore names a field, and all below it, that counts as covered without any updater. Path is as for Machine scope, such as
// /spec/image, whatever the Coverage's scope.
type Ignore = Pointer

// IgnoreOf returns the fields that an UpdatePolicy names.
func IgnoreOf(paths []v1alpha1.IgnorePath) []Ignore {
	ignored := make([]Ignore, 0, len(paths))
	for _, p := range paths {
		ignored = append(ignored, Ignore{Part: Part(p.Object), Path: p.Path})
	}
	return ignored
}

// Covered is what one updater covers.
type Covered struct {
	Updater  string
	Pointers []Pointer
	// SetsVersion says that the Kubernetes version is among them.
	SetsVersion bool
}

// Change is a field that an update changes; see record.Change.
type Change = record.Change

// Result is what all updaters together cover.
type Result struct {
	// Plan is what each updater that covers something covers, in the order in which they run.
	Plan []Covered
	// Uncovered are the fields that no updater covers, sorted. The machine can be updated in place if there are none. An
	// object that should be of another kind has /kind among them, which no updater can cover.
	Uncovered []Pointer
	// Dirty are the fields that differ, are ignored, and that no updater covers, sorted. Their paths are as for Machine
	// scope, because they are recorded on Machines. They are bounded as by BoundPointers: nothing is left out, but where they are
	// many a field stands for all that is dirty below it, and for what else is there.
	Dirty []Pointer
	// Changes are all fields that differ but those that are dirty, sorted; the first MaxChanges and MaxPaths bytes of them, without
	// those whose path is longer than MaxPath.
	Changes []Change
	// Uncompared are the fields that updaters patch and Cluster API does not compare, such as /status, sorted. They are
	// ignored: they cover nothing, change nothing, and are no errors. The path is empty for an object that the machine does
	// not have.
	Uncompared []Pointer
	// Notes are those of the updaters, in the order in which they were asked. They count where something is uncovered.
	Notes []string
	// Warnings are those of the updaters, in the same order. They count where all is covered.
	Warnings []string
	// Errors are the errors of updaters, in the order in which they were asked.
	Errors []*UpdaterError
	// From and To are the Kubernetes versions of the current and the desired Machine; zero where there is none.
	From, To version.Version
	// CurrentDigest and DesiredDigest identify the compared parts of the objects.
	CurrentDigest, DesiredDigest string
}

// UpdaterError says what is wrong with an updater's answer. Such an answer covers nothing. Its text has no values of fields,
// because some are secret. It is shared, and must not be changed.
type UpdaterError struct {
	Updater string
	// Pointer is the field it is about; zero where it is about the whole answer.
	Pointer Pointer
	// Problem says what is wrong, and what would be right.
	Problem string
	// Err is the cause, if there is one.
	Err error
}
