package conformance

import (
	"context"
	"fmt"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

const (
	// nobody is the name of a Machine that does not exist.
	nobody = "windlass-conformance-nobody"
	// longestWait is the longest wait before the update is asked for again, whatever the updater says.
	longestWait = 10 * time.Second
	// restartPatience is how long the updater may not answer after a restart.
	restartPatience = 2 * time.Minute
)

func updatePoints() []definition {
	run := func(check func(context.Context, *kit) outcome) func(context.Context, *kit) outcome {
		return func(ctx context.Context, k *kit) outcome {
			switch {
			case k.handlers[hookUpdateMachine].name == "":
				return skipped("UpdateMachine was not discovered")
			case !k.options.AllowUpdates:
				return skipped("updates were not allowed")
			}
			return check(ctx, k)
		}
	}
	const idempotent = sourceProposal + "Machine updates (idempotent: before and after it completes, the end result is the same)"
	return []definition{
		{"update-machine.unknown-machine", "a machine that does not exist gets Failure", sourceHooks + "UpdateMachine", run(checkUnknownMachine)},
		{"update-machine.repeatable", "the same request while it works gets no Failure", idempotent, run(checkUpdateRepeatable)},
		{"update-machine.restart", "after a restart of the updater, the same operation continues", sourceWindlass + "Restarts", run(checkRestart)},
		{"update-machine.completes", "the update ends with Success and retryAfterSeconds 0", sourceHooks + "UpdateMachine", run(checkCompletes)},
		{"update-machine.done-again", "after the end, the same request is done at once", idempotent, run(checkDoneAgain)},
		{"update-machine.retry-after", "retryAfterSeconds is never negative", sourceHooks + "UpdateMachine", run(checkRetryAfter)},
		{"update-machine.timing", "it answers within its timeout", sourceExtensions + "Timeouts", run(checkUpdateTiming)},
	}
}

// updateRun is what happened in the update of the fixture's machine.
type updateRun struct {
	// first and second are the answers to the first two requests; after that to the first one after the restart.
	first, second, after *runtimehooksv1.UpdateMachineResponse
	// negative is the first negative retryAfterSeconds.
	negative int32
	// asking is why the update was given up.
	asking error
	// restarting is why the updater could not be restarted or did not come back.
	restarting error
	done       bool
	// again are the answers after the end.
	again []*runtimehooksv1.UpdateMachineResponse
}

// request gives the request about a machine, with an operation id.
func (k *kit) updateRequest(name, operation string) (map[string]any, error) {
	request := k.options.Fixture.UpdateMachine.DeepCopy()
	machine := &request.Desired.Machine
	if name != "" {
		machine.Name = name
	}
	if machine.Annotations == nil {
		machine.Annotations = map[string]string{}
	}
	machine.Annotations[v1alpha1.OperationIDAnnotation] = operation
	return asMap(request)
}

func (k *kit) askUpdate(ctx context.Context, run *updateRun) (*runtimehooksv1.UpdateMachineResponse, error) {
	request, err := k.updateRequest("", k.options.Operation)
	if err != nil {
		return nil, err
	}
	a := &runtimehooksv1.UpdateMachineResponse{}
	if err := k.call(ctx, hookUpdateMachine, request, a); err != nil {
		return nil, err
	}
	if a.RetryAfterSeconds < 0 && run.negative == 0 {
		run.negative = a.RetryAfterSeconds
	}
	return a, nil
}

func isDone(a *runtimehooksv1.UpdateMachineResponse) bool {
	return a.Status == runtimehooksv1.ResponseStatusSuccess && a.RetryAfterSeconds == 0
}

// updated updates the fixture's machine, once for all points.
func (k *kit) updated(ctx context.Context) *updateRun {
	if k.update != nil {
		return k.update
	}
	run := &updateRun{}
	k.update = run
	if run.first, run.asking = k.askUpdate(ctx, run); run.asking != nil {
		return run
	}
	if run.second, run.asking = k.askUpdate(ctx, run); run.asking != nil {
		return run
	}
	if k.options.Restart != nil && !isDone(run.second) {
		if run.after, run.restarting = k.restart(ctx, run); run.restarting != nil {
			return run
		}
	}
	if run.asking = k.follow(ctx, run); run.asking != nil {
		return run
	}
	run.done = true
	for range 2 {
		a, err := k.askUpdate(ctx, run)
		if err != nil {
			run.asking = err
			return run
		}
		run.again = append(run.again, a)
	}
	return run
}

// restart restarts the updater and asks until it answers.
func (k *kit) restart(ctx context.Context, run *updateRun) (*runtimehooksv1.UpdateMachineResponse, error) {
	if err := k.options.Restart(ctx); err != nil {
		return nil, fmt.Errorf("restarting: %w", err)
	}
	for deadline := k.options.Now().Add(restartPatience); ; {
		a, err := k.askUpdate(ctx, run)
		if err == nil {
			return a, nil
		}
		if k.options.Now().After(deadline) {
			return nil, fmt.Errorf("%s after the restart: %w", restartPatience, err)
		}
		if err := k.options.Wait(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// follow asks until the update has ended.
func (k *kit) follow(ctx context.Context, run *updateRun) error {
	for deadline := k.options.Now().Add(k.options.UpdateTimeout); ; {
		a, err := k.askUpdate(ctx, run)
		switch {
		case err != nil:
			return err
		case a.Status != runtimehooksv1.ResponseStatusSuccess:
			return fmt.Errorf("it failed: %s", a.Message)
		case isDone(a):
			return nil
		case k.options.Now().After(deadline):
			return fmt.Errorf("it has not ended after %s", k.options.UpdateTimeout)
		}
		pause := min(max(time.Duration(a.RetryAfterSeconds)*time.Second, time.Second), longestWait)
		if err := k.options.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

func checkUnknownMachine(ctx context.Context, k *kit) outcome {
	request, err := k.updateRequest(nobody, k.options.Operation+"-nobody")
	if err != nil {
		return failed("%v", err)
	}
	a := &runtimehooksv1.UpdateMachineResponse{}
	err = k.call(ctx, hookUpdateMachine, request, a)
	switch {
	case err != nil:
		return unanswered(err)
	case a.Status != runtimehooksv1.ResponseStatusFailure:
		return failed("the answer about Machine %s has the status %s and retryAfterSeconds %d", nobody, a.Status, a.RetryAfterSeconds)
	}
	return passed()
}

func checkUpdateRepeatable(ctx context.Context, k *kit) outcome {
	run := k.updated(ctx)
	switch {
	case run.first == nil:
		return unanswered(run.asking)
	case run.first.Status != runtimehooksv1.ResponseStatusSuccess:
		return skipped("the first request failed: %s", run.first.Message)
	case run.second == nil:
		return unanswered(run.asking)
	case run.second.Status != runtimehooksv1.ResponseStatusSuccess:
		return failed("the second request got the status %s: %s", run.second.Status, run.second.Message)
	}
	return passed()
}

func checkRestart(ctx context.Context, k *kit) outcome {
	if k.options.Restart == nil {
		return skipped("there is no command to restart the updater")
	}
	run := k.updated(ctx)
	switch {
	case run.second == nil || run.second.Status != runtimehooksv1.ResponseStatusSuccess:
		return skipped("the update did not begin")
	case run.restarting != nil:
		return failed("%v", run.restarting)
	case run.after == nil:
		return skipped("the update had ended before the updater could be restarted. Fix: choose a machine and a change that take longer")
	case run.after.Status != runtimehooksv1.ResponseStatusSuccess:
		return failed("the same request got the status %s: %s", run.after.Status, run.after.Message)
	}
	return passed()
}

func checkCompletes(ctx context.Context, k *kit) outcome {
	run := k.updated(ctx)
	switch {
	case run.done:
		return passed()
	case run.restarting != nil:
		return skipped("the updater did not come back")
	case run.second != nil && run.second.Status != runtimehooksv1.ResponseStatusSuccess && run.first.Status == runtimehooksv1.ResponseStatusSuccess,
		run.after != nil && run.after.Status != runtimehooksv1.ResponseStatusSuccess:
		return skipped("the update could not be followed")
	}
	return unanswered(run.asking)
}

func checkDoneAgain(ctx context.Context, k *kit) outcome {
	run := k.updated(ctx)
	if !run.done {
		return skipped("the update did not end")
	}
	for _, a := range run.again {
		if !isDone(a) {
			return failed("asked again after the end, the status is %s and retryAfterSeconds %d: %s", a.Status, a.RetryAfterSeconds, a.Message)
		}
	}
	if len(run.again) == 0 {
		return unanswered(run.asking)
	}
	return passed()
}

func checkRetryAfter(ctx context.Context, k *kit) outcome {
	run := k.updated(ctx)
	if run.first == nil {
		return skipped("the update did not begin")
	}
	if run.negative < 0 {
		return failed("retryAfterSeconds was %d; it must be 0 when done and above 0 before", run.negative)
	}
	return passed()
}

func checkUpdateTiming(ctx context.Context, k *kit) outcome {
	k.updated(ctx)
	if err := k.slow[hookUpdateMachine]; err != nil {
		return failed("%v", err)
	}
	return passed()
}
