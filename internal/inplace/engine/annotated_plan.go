package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// plan finds out which updaters bring the machine to what the option says.
func (r *machineRun) plan(ctx context.Context, option request.Option) request.Plan {
	updaters, err := selectUpdaters(ctx, r.Client, r.Object.Namespace, r.Object.Labels)
	if err != nil {
		return request.Plan{Unknown: cut(err.Error())}
	}
	if exact, ok := option.Exact(); ok {
		planned, _ := r.planVersion(ctx, exact, updaters)
		return planned
	}
	for i := range updaters {
		if isK8sd(&updaters[i]) {
			return request.Plan{Steps: []inplace.Step{{
				Updater: updaters[i].Name, SetsVersion: true, Asks: true, MaxMinors: updatepolicy.MaxMinors(&updaters[i]),
			}}}
		}
	}
	return request.Plan{Refused: fmt.Sprintf("%s is for an Updater with spec.inProcess.kind %s; none selects the machine. Fix: register one, or ask for a version with version=",
		option, v1alpha1.K8sdUpdater)}
}

func isK8sd(u *v1alpha1.Updater) bool {
	return u.Spec.InProcess != nil && u.Spec.InProcess.Kind == v1alpha1.K8sdUpdater
}

// planVersion asks the updaters about the Machine with another version and no other change. What the machine runs counts, not what its spec says: the spec
// may be ahead. If the plan has steps, objects are those that updaters were asked about, at the version.
func (r *machineRun) planVersion(
	ctx context.Context, to version.Version, updaters []v1alpha1.Updater,
) (planned request.Plan, objects runtimehooksv1.UpdateMachineRequestObjects) {
	kubelet, problem := r.currentKubelet()
	switch {
	case problem != "" && (kubelet.IsZero() || to.RunBy(kubelet)):
		return request.Plan{Unknown: "what the machine runs is not known: " + problem}, objects
	case to.RunBy(kubelet):
		return request.Plan{}, objects
	}
	objects, err := r.desired(ctx)
	if err != nil {
		return request.Plan{Unknown: cut(err.Error())}, objects
	}
	current, err := machineAt(objects, kubelet)
	if err != nil {
		return request.Plan{Unknown: cut(err.Error())}, objects
	}
	desired, err := machineAt(objects, to)
	if err != nil {
		return request.Plan{Unknown: cut(err.Error())}, objects
	}
	nothing, err := cover.New(cover.Machine, current, desired, nil)
	if err != nil {
		return request.Plan{Unknown: cut("comparing the objects of the Machine: " + err.Error())}, objects
	}
	coverage, err := AskAll(ctx, nothing, updaters, updatepolicy.FailsOpen, func(ctx context.Context, u *v1alpha1.Updater, current cover.Objects) (cover.Patches, error) {
		return r.canUpdate(ctx, u, current, desired)
	})
	if problem, ok := errors.AsType[*QuestionError](err); ok {
		return request.Plan{Unknown: cut(fmt.Sprintf("cannot ask updater %q what it covers, and its failure policy is Fail: %v", problem.Updater, problem.Err))}, objects
	}
	if err != nil {
		return request.Plan{Unknown: cut(err.Error())}, objects
	}
	result := coverage.Result()
	r.reportUnchecked(ctx, r.Object, nil, result.Warnings)
	objects.Machine.Spec.Version = to.String()
	return planOf(result, to, updaters), objects
}

// currentKubelet is what the machine runs, or, where its node cannot be asked, problem says why, and it is what it ran when it was last known, or was made
// with: the upgrade may be what fixes the node.
func (r *machineRun) currentKubelet() (kubelet version.Version, problem string) {
	node := r.facts.Node
	if node.Unknown == "" && node.Exists {
		return node.Kubelet, ""
	}
	if kubelet = kubeletOf(r.Object); kubelet.IsZero() {
		kubelet = r.facts.Spec
	}
	return kubelet, cmp.Or(node.Unknown, "its node does not exist")
}

// planOf makes steps of what is covered.
func planOf(result cover.Result, to version.Version, updaters []v1alpha1.Updater) request.Plan {
	if len(result.Uncovered) > 0 {
		problems := []string{fmt.Sprintf("no Updater that selects the machine changes its version to %s. Fix: register one that covers %s %s", to, result.Uncovered[0].Part, result.Uncovered[0].Path)}
		for _, err := range result.Errors {
			problems = append(problems, err.Error())
		}
		return request.Plan{Refused: cut(strings.Join(problems, "; "))}
	}
	return request.Plan{Steps: stepsOf(result, updaters)}
}

// canUpdate asks one updater.
func (r *machineRun) canUpdate(ctx context.Context, u *v1alpha1.Updater, current, desired cover.Objects) (cover.Patches, error) {
	opened, err := r.Open(ctx, u)
	if err != nil {
		return cover.Patches{}, fmt.Errorf("opening updater %q: %w", u.Name, err)
	}
	return CanUpdate(ctx, opened, cover.Machine, current, desired, r.reserved())
}

// machineAt returns the objects with a version.
func machineAt(objects runtimehooksv1.UpdateMachineRequestObjects, v version.Version) (cover.Objects, error) {
	m := objects.Machine
	m.Spec.Version = v.String()
	data, err := json.Marshal(m)
	if err != nil {
		return cover.Objects{}, fmt.Errorf("encoding the Machine: %w", err)
	}
	return cover.Objects{Machine: data, Infrastructure: objects.InfrastructureMachine.Raw, Bootstrap: objects.BootstrapConfig.Raw}, nil
}

// desired reads the objects of the machine as Cluster API shows them to its hooks: without status.
func (r *machineRun) desired(ctx context.Context) (runtimehooksv1.UpdateMachineRequestObjects, error) {
	m := r.Object
	objects := runtimehooksv1.UpdateMachineRequestObjects{Machine: stripMachine(m, nil)}
	for _, part := range []struct {
		ref  clusterv1.ContractVersionedObjectReference
		into *runtime.RawExtension
	}{{m.Spec.InfrastructureRef, &objects.InfrastructureMachine}, {m.Spec.Bootstrap.ConfigRef, &objects.BootstrapConfig}} {
		object, err := r.ReadReferenced(ctx, m.Namespace, part.ref)
		if err != nil {
			return objects, err
		}
		if part.into.Raw, err = SentObject(object); err != nil {
			return objects, err
		}
	}
	return objects, nil
}

// call asks the updater of a step to bring the machine to the option, or how that goes on. With follow, or where the
// annotation asks for something else by now, nothing may begin but what undoes.
func (r *machineRun) call(ctx context.Context, a inplace.Call, follow *request.Follow) (inplace.Answer, error) {
	u, err := r.serving(ctx, a.Step.Updater)
	if err != nil {
		return inplace.Answer{Message: err.Error()}, nil //nolint:nilerr // The updater was not asked; the message says why.
	}
	if follow != nil && follow.Unheard && !isK8sd(u) {
		// It need not know the annotation that asks it to begin nothing, nor the operation.
		return inplace.Answer{Message: fmt.Sprintf("updater %q did not answer before its deadline, so it is unknown whether its change still runs", u.Name)}, nil
	}
	objects, err := r.shown(ctx)
	if err != nil {
		return inplace.Answer{Message: err.Error()}, nil //nolint:nilerr // The updater was not asked; the message says why.
	}
	text := r.facts.Upgrade.Option
	command := Command{
		Operation: a.Operation, Option: text, Follow: follow != nil || r.facts.Marks.To != text, Cancel: a.Cancel,
	}
	if p := r.facts.Upgrade.Progress; p != nil && follow == nil {
		command.Deadline = p.Deadline(r.facts.Policy.AttemptTimeout)
	}
	return r.Ask(ctx, u, objects, command)
}

// serving returns the Updater of a step if it may change the Machine. The name comes from a record that
// tenants can write. A policy's strategy is about what Cluster API asks for, so it excludes nothing.
func (r *machineRun) serving(ctx context.Context, name string) (*v1alpha1.Updater, error) {
	return servingUpdater(ctx, r.Client, name, policy.Policy{}, r.Object)
}

// shown returns the objects that updaters are shown: the desired ones, at the version that the option
// names if it names one.
func (r *machineRun) shown(ctx context.Context) (runtimehooksv1.UpdateMachineRequestObjects, error) {
	objects, err := r.desired(ctx)
	if err != nil {
		return objects, err
	}
	if option, err := request.ParseOption(r.facts.Upgrade.Option); err == nil {
		if exact, ok := option.Exact(); ok {
			objects.Machine.Spec.Version = exact.String()
		}
	}
	return objects, nil
}
