package app

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/controllers"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// InPlaceUpgrades are the upgrades in place that annotations ask for.
type InPlaceUpgrades struct {
	// Off leaves them to another process, or to nobody.
	Off bool
	// Prefix begins the keys of the annotations; empty means v1alpha1.DefaultInPlaceUpgradePrefix.
	Prefix string
	// WatchFilter is the value that the label clusterv1.WatchLabel must have on what is upgraded; empty means that all is.
	WatchFilter string
}

func (o InPlaceUpgrades) prefix() string {
	return cmp.Or(o.Prefix, v1alpha1.DefaultInPlaceUpgradePrefix)
}

// Check finds a prefix that begins no key of an annotation.
func (o InPlaceUpgrades) Check() error { return request.CheckPrefix(o.prefix()) }

func addInPlaceUpgrades(mgr manager.Manager, c clients, e *engine.Engine, o InPlaceUpgrades) error {
	if o.Off {
		return nil
	}
	if err := o.Check(); err != nil {
		return err
	}
	return controllers.SetUpAnnotations(mgr, controllers.AnnotationOptions{
		Engine: e,
		Client: c.cached, Mapper: mgr.GetRESTMapper(), Kinds: c.kinds, Keys: engine.NewKeys(o.prefix()), WatchFilter: o.WatchFilter,
	})
}

// SlimMachine returns a cache's transformation of Machines. Of those that are cached by their metadata only, as here, it drops what nothing looks at:
// managed fields, which are half of an object, and annotations that are about neither updates nor upgrades in place. Whole Machines stay whole.
func SlimMachine(o InPlaceUpgrades) toolscache.TransformFunc {
	prefix := o.prefix()
	return func(object any) (any, error) {
		machine, ok := object.(*metav1.PartialObjectMetadata)
		if ok && machine.Kind == "Machine" {
			slimMetadata(machine, prefix,
				v1alpha1.UpdateProgressAnnotation, v1alpha1.LastUpdateAnnotation, clusterv1.UpdateInProgressAnnotation,
				v1alpha1.InPlaceUpgradeAnnotation, v1alpha1.UpdateRetryAnnotation, v1alpha1.InPlaceUpgradeDrainAnnotation,
				engine.BlockMoveAnnotation)
		}
		return object, nil
	}
}

// SlimWholeMachine returns what SlimMachine does for whole Machines where groups that annotations upgrade are the only ones that look at them.
func SlimWholeMachine(o InPlaceUpgrades) toolscache.TransformFunc {
	prefix := o.prefix()
	return func(object any) (any, error) {
		machine, ok := object.(*clusterv1.Machine)
		if !ok {
			return object, nil
		}
		slimMetadata(machine, prefix,
			v1alpha1.UpdateProgressAnnotation, clusterv1.UpdateInProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation,
			v1alpha1.InPlaceUpgradeAnnotation, v1alpha1.UpdateRetryAnnotation, v1alpha1.InPlaceUpgradeKubeletAnnotation,
			clusterv1.PausedAnnotation, clusterv1.RemediateMachineAnnotation, clusterv1.MachineSkipRemediationAnnotation)
		machine.Spec = clusterv1.MachineSpec{ClusterName: machine.Spec.ClusterName, Version: machine.Spec.Version}
		status := clusterv1.MachineStatus{NodeRef: machine.Status.NodeRef}
		if info := machine.Status.NodeInfo; info != nil {
			status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: info.KubeletVersion}
		}
		for _, c := range machine.Status.Conditions {
			if slices.Contains(engine.MemberConditions, c.Type) {
				status.Conditions = append(status.Conditions, c)
			}
		}
		machine.Status = status
		return machine, nil
	}
}

// slimMetadata keeps labels, and annotations with a prefix or one of these keys.
func slimMetadata(object metav1.Object, prefix string, keys ...string) {
	object.SetManagedFields(nil)
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return !slices.Contains(keys, key) && !strings.HasPrefix(key, prefix)
	})
}
