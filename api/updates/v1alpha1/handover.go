// Package v1alpha1 is the protocol of hand-over updaters: JSON over HTTPS between Windlass, which offers a group of machines
// and hands them over, and a program that updates them and marks each one itself.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// APIVersion is the apiVersion of requests and responses.
const APIVersion = "updates.windlass.dev/v1alpha1"

// The kinds of requests and responses.
const (
	HandOverRequestKind  = "HandOverRequest"
	HandOverResponseKind = "HandOverResponse"
)

// Phase says what a request asks.
type Phase string

// The phases, in the order of an update. A request in a phase that the updater does not know must be declined.
const (
	// Offer asks whether the updater would make the whole change, on all the machines. It must have no effect. An offer
	// without machines asks whether the updater is there; any answer is a good one.
	Offer Phase = "Offer"
	// Choose asks which of the machines begin now. It must have no effect. The machines are those of the group that Cluster
	// API has marked and that have not begun. A declined request lets none begin until its deadline; the same request comes
	// again.
	Choose Phase = "Choose"
	// Start hands one machine over. An updater that has accepted an operation id before accepts it again, and does not begin
	// anew: a caller that was restarted asks twice. A Start of the same machine with another id comes when the earlier attempt
	// is over, and takes its place.
	Start Phase = "Start"
	// HandOver hands all machines over at once, if the UpdatePolicy has handOver: Group. An updater that accepts updates the
	// machines within the budget, and writes the desired specs of each one's infrastructure machine, bootstrap config and
	// Machine itself, in that order. An operation id that it has accepted before is accepted again, with the budget of the
	// last request. Declining means "not now": the same request comes again.
	HandOver Phase = "HandOver"
	// Cancel ends the attempt with the operation id. Accepting it means that nothing of the attempt runs or begins any longer.
	// An id that the updater does not know, or whose attempt has ended, is accepted. An attempt that cannot be stopped is
	// declined, and can still be marked.
	Cancel Phase = "Cancel"
)

// HandOverRequest is about the machines of one group: those of a MachineDeployment or of a control plane.
type HandOverRequest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Phase      Phase  `json:"phase"`
	// OperationID names the attempt, in Start, HandOver and Cancel. When the updater has updated the machine, it sets the annotation
	// windlass.dev/updated of the Machine to it; when it could not, it sets windlass.dev/update-failed to it, followed by a
	// colon, a space and the reason. Until then it may set windlass.dev/update-message to it, followed by a colon, a space and
	// a message for people.
	OperationID string `json:"operationId,omitempty"`
	// Deadline is when the attempt is over without a mark, in Start. In Choose it is when Windlass begins with one of the
	// machines whatever the answer; it is not set while a machine of the group is updated.
	Deadline metav1.Time `json:"deadline,omitzero"`
	// Reason says why the attempt is cancelled, for people.
	Reason string `json:"reason,omitempty"`
	// Cluster is the Cluster of the machines.
	Cluster ObjectName `json:"cluster"`
	// Owner is the object that wants the update: a MachineDeployment or a control plane. Its type is empty where it is not
	// known.
	Owner Owner `json:"owner"`
	// Machines are those that the request is about, sorted. Offer: all of a MachineSet that would be updated, or the one machine
	// of a control plane that Cluster API asks about; it asks about each by itself. Choose: those that could begin. Start, and
	// Cancel of a Start: one. HandOver, and its Cancel: all of a MachineSet.
	Machines []ObjectName `json:"machines"`
	// Group are all machines of the owner, sorted, also those that need no update. It is in Offer and HandOver.
	Group []ObjectName `json:"group,omitempty"`
	// Free is how many of the machines may begin now by the policy's maxInFlight, at least 1. It is in Choose only.
	Free int `json:"free,omitempty"`
	// Budget bounds how the machines are updated. It is in HandOver only.
	Budget *Budget `json:"budget,omitempty"`
	// Desired is what the machines should be, in Offer, HandOver and Start; for several machines, without their names.
	Desired *Objects `json:"desired,omitempty"`
	// Current is what they are. It is in Offer and HandOver.
	Current *Objects `json:"current,omitempty"`
}

// Budget are the limits of the MachineDeployment and of its UpdatePolicy, in machines of the owner.
type Budget struct {
	// AtOnce is how many may be unavailable or worked on at once, at least 1: maxUnavailable, and at most maxInFlight.
	AtOnce int32 `json:"atOnce"`
	// First is how many are updated first; no other one begins until their objects are written (canary). 0 means none.
	First int32 `json:"first,omitempty"`
	// Stay is how many of the machines stay as they are (partition).
	Stay int32 `json:"stay,omitempty"`
}

// ObjectName is the name of an object.
type ObjectName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Owner names an object and its type.
type Owner struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// Objects are the objects that make a machine, without status. For all machines of a MachineSet they are made of its
// templates.
type Objects struct {
	Machine               runtime.RawExtension `json:"machine"`
	InfrastructureMachine runtime.RawExtension `json:"infrastructureMachine"`
	BootstrapConfig       runtime.RawExtension `json:"bootstrapConfig,omitzero"`
}

// HandOverResponse is the answer to a HandOverRequest, with the HTTP status 200.
type HandOverResponse struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Accepted says that the updater does what the request asks: makes the whole change, lets machines begin, has taken the
	// machine over, or has stopped.
	Accepted bool `json:"accepted"`
	// Reason says why not, for people, in at most 1 KiB.
	Reason string `json:"reason,omitempty"`
	// Machines are those that may begin now, where a Choose request is accepted; each must be one of the request's. None
	// means any of them: the order does not matter to the updater.
	Machines []ObjectName `json:"machines,omitempty"`
}
