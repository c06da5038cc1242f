package upgradecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

// write is what is written to the object, and what to say about it.
type write struct {
	// annotations are set; those that are nil are removed.
	annotations map[string]*string
	intent      intent
	notes       []string
	// done says what was done, once it is.
	done string
}

// computeWrite decides what the flags change, or refuses them.
func (o *options) computeWrite(t target, v reading) (write, error) {
	if v.object.GetDeletionTimestamp() != nil {
		return write{}, cli.Refusedf("%s is being deleted", t)
	}
	if v.asking.State == status.UpgradeUnreadable {
		return write{}, t.unreadable(v.problem)
	}
	w := write{annotations: map[string]*string{}}
	if o.cancel {
		return o.computeCancel(t, v, w)
	}
	switch o.drain {
	case drainAlways, drainNever:
		w.annotations[v1alpha1.InPlaceUpgradeDrainAnnotation] = &o.drain
	case drainByPolicy:
		w.annotations[v1alpha1.InPlaceUpgradeDrainAnnotation] = nil
	default:
		w.notes = append(w.notes, noteDrain(t, v.object)...)
	}
	if o.retry {
		return computeRetry(t, v, w)
	}
	return o.computeTo(t, v, w)
}

// unreadable says that nothing can go on on the object before a person has looked at it.
func (t target) unreadable(problem string) error {
	return cli.Refusedf("the annotation %s of %s says how far its upgrade is, and %s; see how far that is, then remove the annotation: kubectl annotate %s %s -n %s %s-",
		v1alpha1.InPlaceUpgradeAnnotation, t, problem, strings.ToLower(t.name), t.key.Name, t.key.Namespace, v1alpha1.InPlaceUpgradeAnnotation)
}

// noteDrain says what an annotation that stays says of drains.
func noteDrain(t target, object client.Object) []string {
	value := object.GetAnnotations()[v1alpha1.InPlaceUpgradeDrainAnnotation]
	does := map[string]string{drainAlways: "are", drainNever: "are not"}[value]
	if does == "" {
		return nil
	}
	return []string{fmt.Sprintf("nodes %s drained, because the annotation %s of %s says %q; --drain=policy removes it", does, v1alpha1.InPlaceUpgradeDrainAnnotation, t, value)}
}

func (o *options) computeTo(t target, v reading, w write) (write, error) {
	if refusal := computeRefusal(t, v.object, o.to); refusal != "" {
		return write{}, cli.Refusedf("%s of %s is refused: %s", o.to, t, refusal)
	}
	a := v.asking
	switch {
	case a.State == status.UpgradeFailed && a.To == o.to:
		w.annotations[v1alpha1.UpdateRetryAnnotation] = new("")
		w.notes = append(w.notes, fmt.Sprintf("%s has failed to reach %s before (%s); another try is asked for", t, o.to, a.Message))
	case a.To == o.to:
		w.notes = append(w.notes, fmt.Sprintf("%s is asked for already", o.to))
	case a.To != "":
		w.notes = append(w.notes, fmt.Sprintf("this replaces %s, which is %s", a.To, a.State))
	case a.State == status.UpgradeCancelling:
		w.notes = append(w.notes, fmt.Sprintf("%s was cancelled, and what runs of it ends first", a.Option))
	}
	w.annotations[o.prefix+v1alpha1.InPlaceUpgradeTo] = &o.to
	w.intent = intent{option: o.to}
	w.done = fmt.Sprintf("Asked %s to upgrade to %s", t, o.to)
	return w, nil
}

func computeRetry(t target, v reading, w write) (write, error) {
	a := v.asking
	if a.To == "" || a.State != status.UpgradeFailed {
		return write{}, cli.Refusedf("nothing of %s has failed that could be tried again; it is %s", t, a.State)
	}
	w.annotations[v1alpha1.UpdateRetryAnnotation] = new("")
	w.intent = intent{option: a.To}
	w.done = fmt.Sprintf("Asked %s to try %s again", t, a.To)
	return w, nil
}

func (o *options) computeCancel(t target, v reading, w write) (write, error) {
	a := v.asking
	if a.To == "" && a.State != status.UpgradeCancelling {
		return write{}, cli.Refusedf("nothing is asked of %s that could be cancelled; it is %s", t, a.State)
	}
	w.annotations[o.prefix+v1alpha1.InPlaceUpgradeTo] = nil
	if a.Retry {
		w.annotations[v1alpha1.UpdateRetryAnnotation] = nil
	}
	w.intent = intent{cancel: true, option: a.Option}
	w.done = fmt.Sprintf("Cancelled %s of %s", a.Option, t)
	return w, nil
}

// computeRefusal decides as the controllers do, on what is known here: less, so that what they would hold or refuse may pass.
func computeRefusal(t target, object client.Object, to string) string {
	group := request.Group{Marks: request.Marks{To: to}}
	if _, owned := object.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; owned && t.cluster.Spec.Topology.IsDefined() {
		group.Topology = request.Topology{Cluster: t.cluster.Name, Version: parseLeniently(t.cluster.Spec.Topology.Version)}
	}
	switch o := object.(type) {
	case *clusterv1.Machine:
		return computeMachineRefusal(o, group.Topology, to)
	case *clusterv1.MachineDeployment:
		group.Spec = parseLeniently(o.Spec.Template.Spec.Version)
	case *unstructured.Unstructured:
		text, _, _ := unstructured.NestedString(o.Object, "spec", "version") // another shape says nothing
		group.Spec, group.ControlPlane = parseLeniently(text), true
	}
	if after := request.DecideGroup(group).After; !group.Spec.IsZero() && after.Marks.Status == request.Failed {
		return after.Record.Message
	}
	return ""
}

func computeMachineRefusal(m *clusterv1.Machine, topology request.Topology, to string) string {
	controlPlane := capi.IsControlPlane(m)
	f := request.Machine{
		Name: m.Name, Marks: request.Marks{To: to}, Topology: topology, ControlPlane: controlPlane, Spec: parseLeniently(m.Spec.Version),
		Node: inplace.Node{Unknown: "not looked at"},
	}
	if m.Status.NodeInfo != nil {
		f.Node = inplace.Node{Exists: true, Kubelet: parseLeniently(m.Status.NodeInfo.KubeletVersion)}
	}
	if f.Spec.IsZero() || f.Node.Exists && f.Node.Kubelet.IsZero() {
		return ""
	}
	if after := request.DecideMachine(f).After; after.Marks.Status == request.Failed {
		return after.Record.Message
	}
	return ""
}

// parseLeniently returns no version for what cannot be read, which is for the controllers to say.
func parseLeniently(text string) version.Version {
	v, err := version.Parse(text)
	if err != nil {
		return version.Version{}
	}
	return v
}

// writeAnnotations writes annotations, and returns the resource version from which on they are there.
func writeAnnotations(ctx context.Context, m management.Cluster, t target, annotations map[string]*string) (string, error) {
	writer, err := m.NewClient()
	if err != nil {
		return "", err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return "", fmt.Errorf("encoding a patch: %w", err)
	}
	object, ok := t.object.DeepCopyObject().(client.Object)
	if !ok {
		return "", fmt.Errorf("%T is no object of the API", t.object)
	}
	if err := writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return "", fmt.Errorf("writing annotations of %s: %w", t, err)
	}
	return object.GetResourceVersion(), nil
}

// planned is a machine that an upgrade would be about.
type planned struct {
	Machine string `json:"machine"`
	// Kubelet is empty where it is not known.
	Kubelet string `json:"kubelet"`
	// There says that the machine has the option already.
	There bool `json:"there"`
	// NotReady says that the node is not known to be Ready; such machines come first.
	NotReady bool `json:"notReady"`
}

// computeOrder returns the machines in the order in which they would be upgraded.
func computeOrder(v reading, prefix, to string) []planned {
	byName := map[string]planned{}
	members := make([]request.Member, 0, len(v.machines))
	for _, m := range v.machines {
		p := planned{Machine: m.Name, There: status.ReadMarks(m.Annotations, prefix).Release == to, NotReady: !nodeReady(m)}
		if m.Status.NodeInfo != nil {
			p.Kubelet = m.Status.NodeInfo.KubeletVersion
		}
		byName[m.Name] = p
		member := request.Member{Name: m.Name, Created: m.CreationTimestamp.Time, Deleting: !m.DeletionTimestamp.IsZero()}
		if p.NotReady {
			member.NotReady = "it is not known to be Ready"
		}
		members = append(members, member)
	}
	order := make([]planned, 0, len(members))
	for _, m := range request.Order(members) {
		order = append(order, byName[m.Name])
	}
	return order
}

// nodeReady reports whether Cluster API says that the node of a Machine is Ready.
func nodeReady(m *clusterv1.Machine) bool {
	for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}
