package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/handover"
)

// sourceHandOver is where the rules of hand-over are written.
const sourceHandOver = "Windlass docs/how-to/write-a-hand-over-updater.md, "

// handOver is the battery for a hand-over updater under way. It is for one goroutine.
type handOver struct {
	kit
	updater *handover.Updater
	// present says that the updater answered.
	present bool
	// notOffered is why the offer of the fixture's change was not accepted; empty if it was.
	notOffered string
	started    error
	marked     *inplace.Answer
}

// handOverPoint is a point and how it is tested.
type handOverPoint struct {
	id, title, rule string
	run             func(ctx context.Context, h *handOver) outcome
}

func handOverPoints() []handOverPoint {
	return []handOverPoint{
		{"hand-over.answers", "an offer without machines gets an answer", "Offer", checkPresent},
		{"hand-over.unknown-phase", "a request in an unknown phase is declined", "Requests and answers", checkUnknownPhase},
		{"hand-over.offer", "an offer of the fixture's change is accepted, or declined with a reason", "Offer", checkOffer},
		{"hand-over.offer-repeatable", "the same offer gets the same answer", "Offer", checkOfferRepeatable},
		{"hand-over.choose", "a choice names machines of the request only, or is declined with a reason", "Choose", checkChoose},
		{"hand-over.unknown-machine", "a machine that does not exist is not taken over", "Start", checkStartNobody},
		{"hand-over.cancel-unknown", "a cancel of an unknown operation is accepted", "Cancel", checkCancelUnknown},
		{"hand-over.start-repeatable", "a start is accepted, and accepted again", "Start", checkStart},
		{"hand-over.restart", "after a restart of the updater, the same start is accepted", "Start", checkStartAfterRestart},
		{"hand-over.marks", "the Machine is marked as updated", "Marks", checkMarked},
		{"hand-over.done-again", "after the mark, the same start and its cancel are accepted", "Start", checkStartAgain},
	}
}

// RunHandOver is Run for a hand-over updater. annotations reads those of a live Machine of the management cluster; nil skips
// the points about updates.
func RunHandOver(
	ctx context.Context, o Options, annotations func(context.Context, types.NamespacedName) (map[string]string, error),
) (*Report, error) {
	if err := complete(&o); err != nil {
		return nil, err
	}
	if annotations == nil {
		o.AllowUpdates = false
		annotations = func(context.Context, types.NamespacedName) (map[string]string, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, "")
		}
	}
	h := &handOver{kit: kit{options: o}}
	var err error
	h.updater, err = handover.New(handover.Options{
		ClientOptions:      updaters.ClientOptions{Name: "under test", URL: o.URL, CABundle: o.CABundle, Timeout: updaters.DefaultTimeout},
		Machines:           o.Fixture.machines,
		MachineAnnotations: annotations,
	})
	if err != nil {
		return nil, err
	}
	defer h.updater.Close()
	report := &Report{URL: o.URL}
	for _, d := range tlsPoints() {
		result := d.run(ctx, &h.kit)
		report.Points = append(report.Points, Point{ID: d.id, Title: d.title, Source: d.source, Status: result.status, Reason: result.reason})
	}
	for _, p := range handOverPoints() {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", o.URL, err)
		}
		result := skipped("the updater did not answer")
		if h.present || p.id == "hand-over.answers" {
			result = p.run(ctx, h)
		}
		report.Points = append(report.Points, Point{ID: p.id, Title: p.title, Source: sourceHandOver + p.rule, Status: result.status, Reason: result.reason})
	}
	return report, nil
}

// machines are those of the fixture: the one that may be updated belongs to its MachineSet.
func (f *Fixture) machines(_ context.Context, namespace string, _ map[string]string) ([]metav1.PartialObjectMetadata, error) {
	machine := metav1.PartialObjectMetadata{}
	machine.Namespace, machine.Name = namespace, nobody
	if f.UpdateMachine != nil {
		machine.Namespace, machine.Name = f.UpdateMachine.Desired.Machine.Namespace, f.UpdateMachine.Desired.Machine.Name
	}
	if f.CanUpdateMachineSet != nil {
		machine.OwnerReferences = []metav1.OwnerReference{
			{Kind: "MachineSet", Name: f.CanUpdateMachineSet.Current.MachineSet.Name, Controller: new(true)},
		}
	}
	return []metav1.PartialObjectMetadata{machine}, nil
}

func checkPresent(ctx context.Context, h *handOver) outcome {
	if !h.connected {
		return skipped("no connection")
	}
	if err := h.updater.Check(ctx); err != nil {
		return failed("%v", err)
	}
	h.present = true
	return passed()
}

func checkUnknownPhase(ctx context.Context, h *handOver) outcome {
	response, err := h.updater.Send(ctx, updatesv1.HandOverRequest{Phase: "Conformance"})
	switch {
	case err != nil:
		return failed("%v", err)
	case response.Accepted:
		return failed("the phase %q was accepted", "Conformance")
	}
	return passed()
}

// offer offers each of the fixture's changes. It returns why one was declined; empty if none was.
func (h *handOver) offer(ctx context.Context) (reason string, err error) {
	f := h.options.Fixture
	if f.CanUpdateMachine != nil {
		_, err = h.updater.CanUpdateMachine(ctx, f.CanUpdateMachine.DeepCopy())
	}
	if err == nil && f.CanUpdateMachineSet != nil {
		_, err = h.updater.CanUpdateMachineSet(ctx, f.CanUpdateMachineSet.DeepCopy())
	}
	if declined, ok := errors.AsType[*handover.DeclinedError](err); ok {
		return declined.Reason, nil
	}
	return "", err
}

func checkOffer(ctx context.Context, h *handOver) outcome {
	reason, err := h.offer(ctx)
	h.notOffered = reason
	switch {
	case err != nil:
		h.notOffered = err.Error()
		return failed("%v", err)
	case reason == handover.NoReason:
		return failed("the offer was declined without a reason")
	case reason != "":
		return skipped("it declines: %s. Fix: give a change and a Machine that it accepts with --fixture", reason)
	}
	return passed()
}

func checkOfferRepeatable(ctx context.Context, h *handOver) outcome {
	first, err := h.offer(ctx)
	if err != nil {
		return failed("%v", err)
	}
	second, err := h.offer(ctx)
	switch {
	case err != nil:
		return failed("%v", err)
	case first != second:
		return failed("the first answer was %q, the second %q; the empty one accepts", first, second)
	}
	return passed()
}

func checkChoose(ctx context.Context, h *handOver) outcome {
	name := types.NamespacedName{Namespace: "windlass-conformance", Name: nobody}
	if r := h.options.Fixture.UpdateMachine; r != nil {
		name = types.NamespacedName{Namespace: r.Desired.Machine.Namespace, Name: r.Desired.Machine.Name}
	}
	choice, err := h.updater.Choose(ctx, port.Candidates{Machines: []types.NamespacedName{name}, Free: 1})
	switch {
	case err != nil:
		return failed("%v", err)
	case len(choice.Machines) == 0 && choice.Reason == handover.NoReason:
		return failed("the choice was declined without a reason")
	}
	return passed()
}

// send sends a request about one machine that does not exist. A declined one is skipped, with the reason.
func (h *handOver) send(ctx context.Context, phase updatesv1.Phase, machine, operation string) outcome {
	request := updatesv1.HandOverRequest{
		Phase: phase, OperationID: operation, Machines: []updatesv1.ObjectName{{Namespace: "windlass-conformance", Name: machine}},
	}
	if phase == updatesv1.Start {
		request.Desired = &updatesv1.Objects{}
		request.Desired.Machine.Raw = []byte(`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","spec":{"version":"v1.32.1"}}`)
		request.Desired.InfrastructureMachine.Raw = []byte(`{}`)
	}
	response, err := h.updater.Send(ctx, request)
	if err != nil {
		return failed("%v", err)
	}
	if !response.Accepted {
		return skipped("%s", response.Reason)
	}
	return passed()
}

func checkStartNobody(ctx context.Context, h *handOver) outcome {
	result := h.send(ctx, updatesv1.Start, nobody, h.options.Operation+"-nobody")
	switch result.status {
	case Pass:
		return failed("it took over Machine %s, which does not exist", nobody)
	case Skipped:
		return passed()
	case Fail:
	}
	return result
}

func checkCancelUnknown(ctx context.Context, h *handOver) outcome {
	result := h.send(ctx, updatesv1.Cancel, nobody, h.options.Operation+"-unknown")
	if result.status == Skipped {
		return failed("it was declined: %s", result.reason)
	}
	return result
}

// update asks for the update of the fixture's machine as Windlass does. A new client knows nothing of earlier requests.
func (h *handOver) update(ctx context.Context) error {
	start, err := h.startRequest()
	if err != nil {
		return err
	}
	response, err := h.updater.Send(ctx, start)
	switch {
	case err != nil:
		return err
	case !response.Accepted:
		return fmt.Errorf("the start was declined: %s", response.Reason)
	}
	return nil
}

// startRequest is the Start of the fixture's machine.
func (h *handOver) startRequest() (updatesv1.HandOverRequest, error) {
	request := h.options.Fixture.UpdateMachine.DeepCopy()
	m := &request.Desired.Machine
	desired, err := updaters.SpecObjects(m, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig)
	if err != nil {
		return updatesv1.HandOverRequest{}, fmt.Errorf("reading the fixture: %w", err)
	}
	start := updatesv1.HandOverRequest{
		Phase: updatesv1.Start, OperationID: h.options.Operation,
		Deadline: metav1.NewTime(h.options.Now().Add(h.options.UpdateTimeout).Truncate(time.Second)),
		Cluster:  updatesv1.ObjectName{Namespace: m.Namespace, Name: m.Spec.ClusterName},
		Machines: []updatesv1.ObjectName{{Namespace: m.Namespace, Name: m.Name}},
		Desired:  &updatesv1.Objects{},
	}
	start.Desired.Machine.Raw = desired.Machine
	start.Desired.InfrastructureMachine.Raw = desired.Infrastructure
	start.Desired.BootstrapConfig.Raw = desired.Bootstrap
	return start, nil
}

func checkStart(ctx context.Context, h *handOver) outcome {
	if !h.options.AllowUpdates {
		return skipped("updates were not allowed, or no management cluster was given")
	}
	if h.notOffered != "" {
		return skipped("the offer was not accepted: %s", h.notOffered)
	}
	for range 2 {
		if h.started = h.update(ctx); h.started != nil {
			return failed("%v", h.started)
		}
	}
	return passed()
}

// begun returns why the update did not begin, as an outcome; ok where it did.
func (h *handOver) begun() (result outcome, ok bool) {
	if h.options.AllowUpdates && h.notOffered != "" {
		return skipped("the offer was not accepted: %s", h.notOffered), false
	}
	if !h.options.AllowUpdates || h.started != nil {
		return skipped("the update did not begin"), false
	}
	return passed(), true
}

func checkStartAfterRestart(ctx context.Context, h *handOver) outcome {
	if result, ok := h.begun(); !ok {
		return result
	}
	if h.options.Restart == nil {
		return skipped("there is no command to restart the updater")
	}
	if err := h.options.Restart(ctx); err != nil {
		return failed("restarting: %v", err)
	}
	for deadline := h.options.Now().Add(restartPatience); ; {
		err := h.update(ctx)
		if err == nil {
			return passed()
		}
		if h.options.Now().After(deadline) {
			return failed("%s after the restart: %v", restartPatience, err)
		}
		if err := h.options.Wait(ctx, time.Second); err != nil {
			return failed("%v", err)
		}
	}
}

func checkMarked(ctx context.Context, h *handOver) outcome {
	if result, ok := h.begun(); !ok {
		return result
	}
	request := h.options.Fixture.UpdateMachine.DeepCopy()
	if request.Desired.Machine.Annotations == nil {
		request.Desired.Machine.Annotations = map[string]string{}
	}
	request.Desired.Machine.Annotations[v1alpha1.OperationIDAnnotation] = h.options.Operation
	for deadline := h.options.Now().Add(h.options.UpdateTimeout); ; {
		answer := h.updater.UpdateMachine(ctx, request)
		switch answer.Outcome {
		case inplace.Finishes:
			h.marked = &answer
			return passed()
		case inplace.Fails:
			return failed("it failed: %s", answer.Message)
		case inplace.InProgress, inplace.Unknown:
		}
		if h.options.Now().After(deadline) {
			return failed("it has not ended after %s: %s", h.options.UpdateTimeout, answer.Message)
		}
		if err := h.options.Wait(ctx, time.Second); err != nil {
			return failed("%v", err)
		}
	}
}

func checkStartAgain(ctx context.Context, h *handOver) outcome {
	if result, ok := h.begun(); !ok {
		return result
	}
	if h.marked == nil {
		return skipped("the update did not end")
	}
	if err := h.update(ctx); err != nil {
		return failed("%v", err)
	}
	start, err := h.startRequest()
	if err != nil {
		return failed("%v", err)
	}
	response, err := h.updater.Send(ctx, updatesv1.HandOverRequest{
		Phase: updatesv1.Cancel, OperationID: start.OperationID, Reason: "conformance", Cluster: start.Cluster, Machines: start.Machines,
	})
	switch {
	case err != nil:
		return failed("%v", err)
	case !response.Accepted:
		return failed("the cancel of an ended operation was declined: %s", response.Reason)
	}
	return passed()
}
