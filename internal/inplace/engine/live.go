package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// Why a call is refused that the objects in the management cluster do not ask for.
const (
	// NotMarked: Cluster API has not marked the Machine and its objects as updating.
	NotMarked = "NotMarked"
	// RequestDiffers: the objects of an UpdateMachine request are not the live ones.
	RequestDiffers = "RequestDiffers"
	// CurrentDiffers: the current objects of a CanUpdate request are not the live ones.
	CurrentDiffers = "CurrentDiffers"
	// DesiredDiffers: the desired objects of a CanUpdate request are not what the live owner asks for.
	DesiredDiffers = "DesiredDiffers"
	// KindUnknown: no API version of a kind that the live objects refer to keeps Cluster API's contract.
	KindUnknown = "KindUnknown"
)

// UnaskedError reports a call that the objects in the management cluster do not ask for. Nothing was written and no updater was asked. A call of Cluster API
// fails with it while its cache lags behind the API server; Cluster API calls again, and its next call succeeds. Any other caller learns only that.
type UnaskedError struct {
	// Reason is one of the constants above.
	Reason string
	// Message names the object and the difference. It holds no values of fields, because some are secret.
	Message string
}

// UnaskedReason returns the reason, for metrics; empty if the error is about no call.
func (e *UnaskedError) UnaskedReason() string {
	if e.Reason == KindUnknown {
		return ""
	}
	return e.Reason
}

// Error returns the reason and the message.
func (e *UnaskedError) Error() string {
	if e.Reason == KindUnknown {
		return e.Message // It is about no call.
	}
	return fmt.Sprintf("refused (%s): %s. Fix: if this is a call of Cluster API, none is needed, because it calls "+
		"again with fresh objects; otherwise the log of the extension has the address of the caller", e.Reason, e.Message)
}

func unasked(reason, format string, args ...any) *UnaskedError {
	return &UnaskedError{Reason: reason, Message: cut(fmt.Sprintf(format, args...))}
}

// liveObjects are a Machine's objects as the API server has them.
type liveObjects struct {
	// request identifies the request that was compared with them, if there was one.
	request string
	// read is a time at which the Machine was unchanged.
	read                      time.Time
	machine                   *clusterv1.Machine
	infrastructure, bootstrap *unstructured.Unstructured
	// objects are their JSON, as Cluster API sends it.
	objects cover.Objects
	// shown are the same in the form of a request.
	shown runtimehooksv1.UpdateMachineRequestObjects
}

// isBootstrapGone reports whether the Machine's bootstrap config was deleted.
func (l *liveObjects) isBootstrapGone() bool {
	return l.bootstrap == nil && l.machine.Spec.Bootstrap.ConfigRef.IsDefined()
}

// readLiveObjects reads the objects that a Machine refers to; config is the reference to its
// bootstrap config. The error is an *UnaskedError if those of the request are of other kinds or API
// versions.
func (e *Engine) readLiveObjects(
	ctx context.Context, machine *clusterv1.Machine, config clusterv1.ContractVersionedObjectReference,
	infrastructure, bootstrap runtime.RawExtension, reason string,
) (*liveObjects, error) {
	l := &liveObjects{machine: machine}
	var err error
	if l.infrastructure, err = e.readReferenced(ctx, machine.Namespace, machine.Spec.InfrastructureRef, infrastructure, reason); err != nil {
		return nil, err
	}
	if l.bootstrap, err = e.readReferenced(ctx, machine.Namespace, config, bootstrap, reason); err != nil {
		return nil, err
	}
	l.shown.Machine = *machine.DeepCopy()
	l.shown.Machine.Status = clusterv1.MachineStatus{}
	if l.objects.Machine, err = json.Marshal(l.shown.Machine); err != nil {
		return nil, fmt.Errorf("encoding Machine %s: %w", client.ObjectKeyFromObject(machine), err)
	}
	if l.objects.Infrastructure, err = SentObject(l.infrastructure); err != nil {
		return nil, err
	}
	if l.objects.Bootstrap, err = SentObject(l.bootstrap); err != nil {
		return nil, err
	}
	l.shown.InfrastructureMachine, l.shown.BootstrapConfig = runtime.RawExtension{Raw: l.objects.Infrastructure}, runtime.RawExtension{Raw: l.objects.Bootstrap}
	return l, nil
}

// readReferenced reads what a reference names, which sent must be in a request; nil where the
// reference is empty.
func (e *Engine) readReferenced(
	ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference,
	sent runtime.RawExtension, reason string,
) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		if rawJSON(sent) != nil {
			return nil, unasked(reason, "the request has an object that the live object does not refer to")
		}
		return nil, nil //nolint:nilnil // There is no such object, which is no error.
	}
	gvk, err := e.kindOf(ctx, ref.GroupKind())
	if err != nil {
		return nil, err
	}
	if err := checkSent(sent, gvk, reason); err != nil {
		return nil, err
	}
	return e.ReadReferenced(ctx, namespace, ref)
}

// sentMetadata returns an object with the metadata of another one that Cluster API sends to hooks.
func sentMetadata(of client.Object) *unstructured.Unstructured {
	sent := &unstructured.Unstructured{Object: map[string]any{}}
	sent.SetName(of.GetName())
	sent.SetNamespace(of.GetNamespace())
	sent.SetLabels(of.GetLabels())
	sent.SetAnnotations(of.GetAnnotations())
	return sent
}

// SentObject encodes an object as Cluster API sends it to hooks: without status and most metadata.
func SentObject(u *unstructured.Unstructured) (json.RawMessage, error) {
	if u == nil {
		return nil, nil
	}
	sent := sentMetadata(u)
	sent.SetGroupVersionKind(u.GroupVersionKind())
	sent.Object["spec"] = u.Object["spec"]
	data, err := json.Marshal(sent)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", u.GetKind(), client.ObjectKeyFromObject(u), err)
	}
	return data, nil
}

// checkMachineMarks returns an *UnaskedError unless Cluster API has marked a Machine as updating. It marks the Machine first, then its
// infrastructure machine and its bootstrap config, each in the write that brings the desired state, and last puts UpdateMachine among the Machine's pending
// hooks. Only then does it call.
func checkMachineMarks(m *clusterv1.Machine) error {
	key := client.ObjectKeyFromObject(m)
	switch {
	case !has(m, clusterv1.UpdateInProgressAnnotation):
		return unasked(NotMarked, "Machine %s has no annotation %s", key, clusterv1.UpdateInProgressAnnotation)
	case !slices.Contains(strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ","), "UpdateMachine"):
		return unasked(NotMarked, "the annotation %s of Machine %s does not name UpdateMachine", runtimev1.PendingHooksAnnotation, key)
	}
	return nil
}

// checkMarks is checkMachineMarks for the other objects of a Machine.
func checkMarks(l *liveObjects) error {
	key := client.ObjectKeyFromObject(l.machine)
	for _, object := range []*unstructured.Unstructured{l.infrastructure, l.bootstrap} {
		if object != nil && !has(object, clusterv1.UpdateInProgressAnnotation) {
			return unasked(NotMarked, "%s %s of Machine %s has no annotation %s", object.GetKind(), object.GetName(), key, clusterv1.UpdateInProgressAnnotation)
		}
	}
	return nil
}

// configRef returns the reference to a Machine's bootstrap config; the zero reference if the request
// has none and it does not exist: if it was deleted, Cluster API sends none.
func (e *Engine) configRef(
	ctx context.Context, machine *clusterv1.Machine, sent runtime.RawExtension,
) (clusterv1.ContractVersionedObjectReference, error) {
	ref := machine.Spec.Bootstrap.ConfigRef
	if rawJSON(sent) != nil || !ref.IsDefined() {
		return ref, nil
	}
	key := types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}
	err := e.ReadProvided(ctx, ref.GroupKind(), key, &metav1.PartialObjectMetadata{})
	if apierrors.IsNotFound(err) {
		return clusterv1.ContractVersionedObjectReference{}, nil
	}
	return ref, err
}

// readMarked reads a Machine and its objects, and returns them if Cluster API's marks and the request fit them; otherwise an *UnaskedError.
func (e *Engine) readMarked(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (*liveObjects, error) {
	read := e.Now()
	key := client.ObjectKeyFromObject(&request.Desired.Machine)
	machine := &clusterv1.Machine{}
	if err := e.Live.Get(ctx, key, machine); err != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	if err := checkMachineMarks(machine); err != nil {
		return nil, err
	}
	config, err := e.configRef(ctx, machine, request.Desired.BootstrapConfig)
	if err != nil {
		return nil, e.showMissingRights(ctx, machine, err)
	}
	l, err := e.readLiveObjects(ctx, machine, config, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig, RequestDiffers)
	if err != nil {
		return nil, e.showMissingRights(ctx, machine, err)
	}
	l.read = read
	if l.request, err = requestDigest(request); err != nil {
		return nil, unasked(RequestDiffers, "the request about Machine %s: %v", key, err)
	}
	if err := checkMarks(l); err != nil {
		return nil, err
	}
	sent, err := machineObjects(runtimehooksv1.CanUpdateMachineRequestObjects(request.Desired))
	if err != nil {
		return nil, fmt.Errorf("reading the request about Machine %s: %w", key, err)
	}
	differing, err := cover.Differing(cover.Machine, sent, l.objects)
	if err != nil {
		return nil, unasked(RequestDiffers, "the request about Machine %s: %v", key, err)
	}
	if len(differing) > 0 {
		return nil, unasked(RequestDiffers, "the request about Machine %s does not have the live %s", key, cover.Describe(differing))
	}
	return l, nil
}

// setMetadata replaces the metadata of an object's JSON by that of a live object. An updater decides by labels and annotations too.
func setMetadata(raw json.RawMessage, live *unstructured.Unstructured) (json.RawMessage, error) {
	if raw == nil || live == nil {
		return raw, nil
	}
	var object map[string]json.RawMessage
	if err := untrusted.Object.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(sentMetadata(live).Object["metadata"])
	if err != nil {
		return nil, err
	}
	object["metadata"] = metadata
	return json.Marshal(object)
}
