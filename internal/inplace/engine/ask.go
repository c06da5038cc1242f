package engine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// QuestionError says which updater could not be asked.
type QuestionError struct {
	Updater string
	Err     error
}

// Error names the updater and the cause.
func (e *QuestionError) Error() string {
	return fmt.Sprintf("updater %q cannot be asked: %v", e.Updater, e.Err)
}

// Unwrap returns the cause.
func (e *QuestionError) Unwrap() error { return e.Err }

// AskAll asks each updater in turn what it covers; each sees what those before it cover. One that declines covers nothing, and so
// does one that fails where mayFail says that it may; any other failure is a *QuestionError.
func AskAll(ctx context.Context, coverage *cover.Coverage, updaters []v1alpha1.Updater, mayFail func(*v1alpha1.Updater) bool,
	call func(ctx context.Context, u *v1alpha1.Updater, current cover.Objects) (cover.Patches, error),
) (*cover.Coverage, error) {
	for i := range updaters {
		u := &updaters[i]
		described := cover.Updater{Name: u.Name, MaxMinors: updatepolicy.MaxMinors(u)}
		patches, err := call(ctx, u, coverage.Current())
		switch {
		case err == nil:
			// An answer that cannot be used covers nothing; the result carries what is wrong with it.
			coverage, _ = coverage.Apply(described, patches)
		case declines(err), mayFail(u):
			coverage = coverage.Fail(described, "covers nothing", err)
		default:
			return nil, &QuestionError{Updater: u.Name, Err: err}
		}
	}
	return coverage, nil
}

// declines reports whether an updater was asked and said that it does not want the update at all.
func declines(err error) bool {
	declined, ok := errors.AsType[interface {
		error
		Declined() bool
	}](err)
	return ok && declined.Declined()
}

// CanUpdate asks an updater what it covers of the way from current to desired. The updater is shown
// neither annotations nor labels whose keys begin with one of reserved.
func CanUpdate(
	ctx context.Context, u port.Updater, scope cover.Scope, current, desired cover.Objects, reserved []string,
) (cover.Patches, error) {
	if scope == cover.MachineSet {
		request := &runtimehooksv1.CanUpdateMachineSetRequest{}
		err := errors.Join(showMachineSet(current, &request.Current, reserved), showMachineSet(desired, &request.Desired, reserved))
		if err != nil {
			return cover.Patches{}, err
		}
		return u.CanUpdateMachineSet(ctx, request)
	}
	request := &runtimehooksv1.CanUpdateMachineRequest{}
	err := errors.Join(showMachine(current, &request.Current, reserved), showMachine(desired, &request.Desired, reserved))
	if err != nil {
		return cover.Patches{}, err
	}
	return u.CanUpdateMachine(ctx, request)
}

// showMachine puts the objects of a Machine into a request.
func showMachine(from cover.Objects, to *runtimehooksv1.CanUpdateMachineRequestObjects, reserved []string) error {
	if err := untrusted.Object.Unmarshal(from.Machine, &to.Machine); err != nil {
		return fmt.Errorf("decoding the Machine: %w", err)
	}
	to.Machine = stripMachine(&to.Machine, reserved)
	to.InfrastructureMachine.Raw, to.BootstrapConfig.Raw = from.Infrastructure, from.Bootstrap
	return stripParts(&to.InfrastructureMachine, &to.BootstrapConfig, reserved)
}

// showMachineSet puts the objects of a MachineSet into a request.
func showMachineSet(from cover.Objects, to *runtimehooksv1.CanUpdateMachineSetRequestObjects, reserved []string) error {
	set := &to.MachineSet
	if err := untrusted.Object.Unmarshal(from.Machine, set); err != nil {
		return fmt.Errorf("decoding the MachineSet: %w", err)
	}
	set.Labels, set.Annotations = strip(set.Labels, reserved), strip(set.Annotations, reserved)
	to.InfrastructureMachineTemplate.Raw, to.BootstrapConfigTemplate.Raw = from.Infrastructure, from.Bootstrap
	return stripParts(&to.InfrastructureMachineTemplate, &to.BootstrapConfigTemplate, reserved)
}

// selectUpdaters returns the updaters for machines with these labels, in order. The error is an *policy.InvalidError where one cannot be used.
func selectUpdaters(ctx context.Context, reader client.Reader, namespace string, labels map[string]string) ([]v1alpha1.Updater, error) {
	var updaters v1alpha1.UpdaterList
	if err := reader.List(ctx, &updaters); err != nil {
		return nil, fmt.Errorf("listing Updaters: %w", err)
	}
	namespaceLabels, err := NamespaceLabels(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	return updatepolicy.SelectUpdaters(updaters.Items, namespaceLabels, labels)
}

// servingUpdater returns the Updater with this name if it may change the Machine. policy is the one that counts for the Machine's group. The error is an
// *updatepolicy.NotServedError or *policy.InvalidError if the Updater may not; see updatepolicy.MayServe.
func servingUpdater(ctx context.Context, reader client.Reader, name string, policy policy.Policy, machine metav1.Object) (*v1alpha1.Updater, error) {
	u := &v1alpha1.Updater{}
	err := reader.Get(ctx, types.NamespacedName{Name: name}, u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &updatepolicy.NotServedError{Updater: name, Reason: "it does not exist"}
	case err != nil:
		return nil, fmt.Errorf("reading Updater %q: %w", name, err)
	}
	namespaceLabels, err := NamespaceLabels(ctx, reader, machine.GetNamespace())
	if err != nil {
		return nil, err
	}
	if err := updatepolicy.MayServe(u, policy, namespaceLabels, machine.GetLabels()); err != nil {
		return nil, err
	}
	return u, nil
}

// NamespaceLabels reads the labels of a namespace, by its metadata.
func NamespaceLabels(ctx context.Context, reader client.Reader, name string) (map[string]string, error) {
	namespace := capi.MetadataOf(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return namespace.Labels, nil
}
