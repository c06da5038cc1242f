// Package v1alpha1 is the protocol of hand-over updaters: JSON over HTTPS between Windlass, which offers machines and hands
// them over one by one, and a program that updates them and marks each one itself.
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// APIVersion is the apiVersion of requests and responses.
const APIVersion = "updates.windlass.dev/v1alpha1"

// The kinds of requests and responses.
const (
	HandOverRequestKind  = "HandOverRequest"
	HandOverResponseKind = "HandOverResponse"
)

// Phase says what a request asks.
type Phase string

// The phases. A request in a phase that the updater does not know must be declined.
const (
	// Offer asks whether the updater would make the whole change, on all the machines. It must have no effect. An offer
	// without machines asks whether the updater is there; any answer is a good one.
	Offer Phase = "Offer"
	// Start hands one machine over. An updater that has accepted an operation id before accepts it again, and does not begin
	// anew: a caller that was restarted asks twice. A Start of the same machine with another id comes when the time of the
	// earlier attempt is over, and takes its place.
	Start Phase = "Start"
)

// HandOverRequest offers machines, or hands one over.
type HandOverRequest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Phase      Phase  `json:"phase"`
	// OperationID names the attempt, in Start. When the updater has updated the machine, it sets the annotation
	// windlass.dev/updated of the Machine to it; when it could not, it sets windlass.dev/update-failed to it, followed by a
	// colon, a space and the reason.
	OperationID string `json:"operationId,omitempty"`
	// Cluster is the Cluster of the machines.
	Cluster ObjectName `json:"cluster"`
	// Owner is the object that wants the update: a MachineDeployment or a control plane. Its type is empty where it is not
	// known.
	Owner Owner `json:"owner"`
	// Machines are the one to update, in Start; in Offer all of a MachineSet that would be updated, or the one machine of a
	// control plane that Cluster API asks about: it asks about each by itself.
	Machines []ObjectName `json:"machines"`
	// Desired is what the machines should be; in Offer, for several machines, without their names.
	Desired Objects `json:"desired"`
	// Current is what they are. It is in Offer only.
	Current *Objects `json:"current,omitempty"`
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
	// Accepted says that the updater makes the whole change, or has taken the machine over.
	Accepted bool `json:"accepted"`
	// Reason says why not, for people, in at most 1 KiB.
	Reason string `json:"reason,omitempty"`
}
