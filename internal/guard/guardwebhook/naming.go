package guardwebhook

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/webhooks/admission"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/pool"
)

// Naming validates MachineDeployments or MachineSets. It calls Cluster API's own webhook, which
// executes any spec.machineNaming.template, without a template that pool.ParseNaming refuses. It
// refuses such a template in a new object and in a change of the template. An object that has one
// already can be changed otherwise.
//
// It is safe for concurrent use.
type Naming[T copied[T]] struct {
	kind, path string
	template   func(T) *string
	rest       interface {
		admission.Validator[T]
		SetupWebhookWithManager(mgr ctrl.Manager) error
	}
}

// copied is an object that can be copied.
type copied[T any] interface {
	client.Object
	DeepCopy() T
}

// MachineDeployments returns the webhook of MachineDeployments.
func MachineDeployments() *Naming[*clusterv1.MachineDeployment] {
	return &Naming[*clusterv1.MachineDeployment]{
		kind: "MachineDeployment", path: "/validate-cluster-x-k8s-io-v1beta2-machinedeployment",
		template: func(md *clusterv1.MachineDeployment) *string {
			return &md.Spec.MachineNaming.Template
		},
		rest: &upstream.MachineDeployment{},
	}
}

// MachineSets returns the webhook of MachineSets.
func MachineSets() *Naming[*clusterv1.MachineSet] {
	return &Naming[*clusterv1.MachineSet]{
		kind: "MachineSet", path: "/validate-cluster-x-k8s-io-v1beta2-machineset",
		template: func(set *clusterv1.MachineSet) *string { return &set.Spec.MachineNaming.Template },
		rest:     &upstream.MachineSet{},
	}
}

// SetupWebhookWithManager serves all that Cluster API's webhook serves, at its paths: our
// validation, its defaulting and its conversion. Cluster API's must not be set up beside it.
func (w *Naming[T]) SetupWebhookWithManager(mgr ctrl.Manager) error {
	// Ours goes first: Cluster API's set-up skips a path that is registered.
	mgr.GetWebhookServer().Register(w.path, admission.WithValidator[T](mgr.GetScheme(), w))
	return w.rest.SetupWebhookWithManager(mgr)
}

// ValidateCreate validates a new object.
func (w *Naming[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	shown, problems := w.judge(object)
	warnings, err := w.rest.ValidateCreate(ctx, shown)
	return warnings, w.withProblems(err, object, problems)
}

// ValidateUpdate validates a changed object.
func (w *Naming[T]) ValidateUpdate(
	ctx context.Context, before, after T,
) (admission.Warnings, error) {
	shown, problems := w.judge(after)
	if *w.template(before) == *w.template(after) {
		problems = nil
	}
	warnings, err := w.rest.ValidateUpdate(ctx, before, shown)
	return warnings, w.withProblems(err, after, problems)
}

// ValidateDelete validates the deletion of an object.
func (w *Naming[T]) ValidateDelete(ctx context.Context, object T) (admission.Warnings, error) {
	return w.rest.ValidateDelete(ctx, object)
}

// judge returns the problems of the template of names, and the object for Cluster API's webhook:
// without the template if that has problems.
func (w *Naming[T]) judge(object T) (T, field.ErrorList) {
	template := *w.template(object)
	if template == "" {
		return object, nil
	}
	_, err := pool.ParseNaming(template)
	if err == nil {
		return object, nil
	}
	shown := object.DeepCopy()
	*w.template(shown) = ""
	path := field.NewPath("spec", "machineNaming", "template")
	return shown, field.ErrorList{field.Invalid(path, template, err.Error())}
}

// withProblems adds problems to err, which Cluster API's webhook returned.
func (w *Naming[T]) withProblems(err error, object T, problems field.ErrorList) error {
	kind := clusterv1.GroupVersion.WithKind(w.kind).GroupKind()
	return withProblems(err, kind, object.GetName(), problems)
}
