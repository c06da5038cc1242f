package uninstallcmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/hookserver"
)

// namePrefix begins the names of all objects of config/ that belong to the whole cluster.
const namePrefix = "windlass-"

// collect reads the facts of a removal. A kind that the server does not serve has no objects.
func collect(ctx context.Context, m management.Cluster, prefix string) (doctor.Removal, error) {
	r := doctor.Removal{Prefix: prefix}
	for _, read := range []func(context.Context, management.Cluster, *doctor.Removal) error{
		readObjects, readPlans, readExtensions, readGuard, readLeftovers, readStored,
	} {
		if err := read(ctx, m, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// add appends the objects of a kind that keep selects.
func add[V any, L any, T interface {
	*V
	client.Object
}, P interface {
	*L
	client.ObjectList
}](
	ctx context.Context, m management.Cluster, into *[]doctor.Owned, kind string,
	keep func(metav1.Object) bool,
) error {
	found, err := management.ListKnown[V, L, T, P](ctx, m, kind+"s", management.Scope{})
	for i := range found {
		if o := T(&found[i]); keep(o) {
			*into = append(*into, doctor.Owned{Kind: kind, Object: o})
		}
	}
	return err
}

func every(metav1.Object) bool { return true }

func isOurs(o metav1.Object) bool { return strings.HasPrefix(o.GetName(), namePrefix) }

func isLock(o metav1.Object) bool {
	return strings.HasSuffix(o.GetName(), v1alpha1.InPlaceUpgradeLockSuffix)
}

func readObjects(ctx context.Context, m management.Cluster, r *doctor.Removal) error {
	into := &r.Objects
	return errors.Join(
		add[clusterv1.Cluster, clusterv1.ClusterList](ctx, m, into, "Cluster", every),
		add[clusterv1.MachineDeployment, clusterv1.MachineDeploymentList](
			ctx, m, into, "MachineDeployment", every),
		add[clusterv1.MachineSet, clusterv1.MachineSetList](ctx, m, into, "MachineSet", every),
		add[clusterv1.Machine, clusterv1.MachineList](ctx, m, into, "Machine", every),
		add[corev1.ConfigMap, corev1.ConfigMapList](ctx, m, into, "ConfigMap", isLock),
	)
}

func readPlans(ctx context.Context, m management.Cluster, r *doctor.Removal) error {
	classes, err := management.ListKnown[clusterv1.ClusterClass, clusterv1.ClusterClassList](
		ctx, m, "ClusterClasses", management.Scope{})
	r.Plans = map[types.NamespacedName]string{}
	for i := range classes {
		if name := classes[i].Spec.Upgrade.External.GenerateUpgradePlanExtension; name != "" {
			r.Plans[client.ObjectKeyFromObject(&classes[i])] = name
		}
	}
	return err
}

func readExtensions(ctx context.Context, m management.Cluster, r *doctor.Removal) error {
	all, err := m.ExtensionConfigs(ctx)
	if err != nil {
		return err
	}
	r.Extensions = map[string]*doctor.Called{}
	for i := range all {
		e := &all[i]
		r.Extensions[e.Name] = nil
		service := types.NamespacedName{
			Namespace: e.Spec.ClientConfig.Service.Namespace,
			Name:      e.Spec.ClientConfig.Service.Name,
		}
		if !servesOurHooks(e) && service.Name != namePrefix+"extension" {
			continue
		}
		if r.Extensions[e.Name], err = callee(ctx, m, service); err != nil {
			return err
		}
	}
	return nil
}

// servesOurHooks reports whether Cluster API has discovered handlers by Windlass' names.
func servesOurHooks(e *runtimev1.ExtensionConfig) bool {
	return slices.ContainsFunc(e.Status.Handlers, func(h runtimev1.ExtensionHandler) bool {
		return h.Name == hookserver.GenerateUpgradePlanHandler+"."+e.Name
	})
}

func readGuard(ctx context.Context, m management.Cluster, r *doctor.Removal) error {
	guard := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	key := types.NamespacedName{Name: v1alpha1.GuardConfigurationName}
	err := m.Object(ctx, "ValidatingWebhookConfiguration", key, guard)
	if err != nil {
		return management.IgnoreMissing(err)
	}
	service := types.NamespacedName{}
	for _, w := range guard.Webhooks {
		if s := w.ClientConfig.Service; s != nil {
			service = types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		}
	}
	r.Guard, err = callee(ctx, m, service)
	return err
}

// callee looks for a Service. Without a name the registration has a URL, which is not tried.
func callee(
	ctx context.Context, m management.Cluster, key types.NamespacedName,
) (*doctor.Called, error) {
	called := &doctor.Called{Service: key}
	if key.Name == "" {
		return called, nil
	}
	err := m.Object(ctx, "Service", key, &corev1.Service{})
	called.Missing = err != nil && management.IgnoreMissing(err) == nil
	return called, management.IgnoreMissing(err)
}

func readLeftovers(ctx context.Context, m management.Cluster, r *doctor.Removal) error {
	into := &r.Leftovers
	return errors.Join(
		add[admissionregistrationv1.ValidatingAdmissionPolicyBinding,
			admissionregistrationv1.ValidatingAdmissionPolicyBindingList](
			ctx, m, into, "ValidatingAdmissionPolicyBinding", isOurs),
		add[admissionregistrationv1.ValidatingAdmissionPolicy,
			admissionregistrationv1.ValidatingAdmissionPolicyList](
			ctx, m, into, "ValidatingAdmissionPolicy", isOurs),
		add[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](
			ctx, m, into, "ClusterRoleBinding", isOurs),
		add[rbacv1.ClusterRole, rbacv1.ClusterRoleList](ctx, m, into, "ClusterRole", isOurs),
	)
}

func readStored(ctx context.Context, m management.Cluster, r *doctor.Removal) error {
	into := &r.Stored
	return errors.Join(
		add[v1alpha1.UpdatePolicy, v1alpha1.UpdatePolicyList](ctx, m, into, "UpdatePolicy", every),
		add[v1alpha1.UpgradeGate, v1alpha1.UpgradeGateList](ctx, m, into, "UpgradeGate", every),
		add[v1alpha1.Updater, v1alpha1.UpdaterList](ctx, m, into, "Updater", every),
		add[v1alpha1.UpgradeGraph, v1alpha1.UpgradeGraphList](ctx, m, into, "UpgradeGraph", every),
	)
}
