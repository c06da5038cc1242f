package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// ownDomain begins the keys of all annotations and labels between Windlass and updaters.
const ownDomain = "windlass.dev/"

// Command is what an updater is told beside the objects of the machine.
type Command struct {
	// Operation is the id of the attempt; never empty.
	Operation string
	// Option is what an annotation asks for; empty for an update that Cluster API asks for.
	Option string
	// Follow says that nothing may begin any longer.
	Follow bool
	// Prefetch says that the update may not begin yet, and that the machine is prepared for it.
	Prefetch bool
	// Deadline is when the attempt is over; zero if that is not known.
	Deadline time.Time
	// Cancel says why the attempt must end; empty while it may run.
	Cancel string
}

// ReservedKeys are the prefixes of annotations and labels that only Windlass may set in what an updater is shown. inPlacePrefix is the configured one.
func ReservedKeys(inPlacePrefix string) []string {
	return []string{ownDomain, v1alpha1.DefaultInPlaceUpgradePrefix, inPlacePrefix}
}

// UpdateRequest builds what an updater is told: the objects of a machine without reserved annotations and labels, and the command. It is the only place
// that sets the annotations between Windlass and updaters. objects are not changed.
func UpdateRequest(objects runtimehooksv1.UpdateMachineRequestObjects, command Command, reserved []string) (*runtimehooksv1.UpdateMachineRequest, error) {
	shown := objects
	shown.Machine = stripMachine(&objects.Machine, reserved)
	if err := stripParts(&shown.InfrastructureMachine, &shown.BootstrapConfig, reserved); err != nil {
		return nil, err
	}
	if shown.Machine.Annotations == nil {
		shown.Machine.Annotations = map[string]string{}
	}
	shown.Machine.Annotations[v1alpha1.OperationIDAnnotation] = command.Operation
	if command.Option != "" {
		shown.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] = command.Option
	}
	if !command.Deadline.IsZero() {
		deadline := command.Deadline.UTC().Format(time.RFC3339)
		shown.Machine.Annotations[v1alpha1.DeadlineAnnotation] = deadline
	}
	if command.Cancel != "" {
		shown.Machine.Annotations[v1alpha1.CancelAnnotation] = command.Cancel
	}
	if command.Prefetch {
		shown.Machine.Annotations[v1alpha1.PrefetchAnnotation] = "true"
	}
	if command.Follow {
		shown.Machine.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] = "true"
	}
	return &runtimehooksv1.UpdateMachineRequest{Desired: shown}, nil
}

// stripMachine returns a Machine as Cluster API shows it to its hooks, without status, and without reserved annotations and labels.
func stripMachine(m *clusterv1.Machine, reserved []string) clusterv1.Machine {
	return clusterv1.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, Labels: strip(m.Labels, reserved), Annotations: strip(m.Annotations, reserved),
		},
		Spec: *m.Spec.DeepCopy(),
	}
}

// stripParts removes reserved annotations and labels from the objects that belong to a machine. It
// replaces their JSON, and changes no bytes of it.
func stripParts(infrastructure, bootstrap *runtime.RawExtension, reserved []string) (err error) {
	if infrastructure.Raw, err = stripObject(infrastructure.Raw, reserved); err != nil {
		return fmt.Errorf("reading the infrastructure machine: %w", err)
	}
	if bootstrap.Raw, err = stripObject(bootstrap.Raw, reserved); err != nil {
		return fmt.Errorf("reading the bootstrap config: %w", err)
	}
	return nil
}

// stripObject removes reserved annotations and labels from an object's JSON. Absent objects stay absent.
func stripObject(raw []byte, reserved []string) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return raw, nil
	}
	tree, err := untrusted.Object.Tree(raw)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("it is no object")
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return raw, nil
	}
	for _, field := range []string{"annotations", "labels"} {
		if values, ok := metadata[field].(map[string]any); ok {
			maps.DeleteFunc(values, func(key string, _ any) bool { return isReserved(key, reserved) })
		}
	}
	return json.Marshal(object)
}

func strip(values map[string]string, reserved []string) map[string]string {
	kept := maps.Clone(values)
	maps.DeleteFunc(kept, func(key, _ string) bool { return isReserved(key, reserved) })
	return kept
}

func isReserved(key string, reserved []string) bool {
	for _, prefix := range reserved {
		if prefix != "" && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
