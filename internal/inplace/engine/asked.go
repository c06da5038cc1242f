package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// machineQuestion is the question of a CanUpdateMachine request, if its current objects are the live ones, and its desired objects change nothing that the
// control plane's object does not ask for. The error is an *UnaskedError otherwise. If it is a *RefusedError, the question has
// all that decideUnread needs.
func (e *Engine) machineQuestion(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (question, error) {
	key := client.ObjectKeyFromObject(&request.Current.Machine)
	machine := &clusterv1.Machine{}
	if err := e.Live.Get(ctx, key, machine); err != nil {
		return question{}, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	q := question{scope: cover.Machine, subject: machine, labels: machine.Labels, quiet: !capi.OwnerMovedOn(machine)}
	live, err := e.readLiveObjects(ctx, machine, machine.Spec.Bootstrap.ConfigRef, request.Current.InfrastructureMachine, request.Current.BootstrapConfig, CurrentDiffers)
	if err != nil {
		return q, err
	}
	if q.current, err = machineObjects(request.Current); err != nil {
		return question{}, fmt.Errorf("reading the current objects of Machine %s: %w", key, err)
	}
	if q.desired, err = machineObjects(request.Desired); err != nil {
		return question{}, fmt.Errorf("reading the desired objects of Machine %s: %w", key, err)
	}
	differing, err := cover.NotLive(q.current, live.objects, q.desired)
	if err != nil {
		return question{}, unasked(CurrentDiffers, "the request about Machine %s: %v", key, err)
	}
	if len(differing) > 0 {
		return question{}, unasked(CurrentDiffers, "the current objects in the request do not have the live %s of Machine %s", cover.Describe(differing), key)
	}
	source, err := e.readControlPlaneSource(ctx, live, request.Desired)
	if err != nil {
		return q, err
	}
	before := q.current
	before.Bootstrap = live.objects.Bootstrap
	if q.unasked, err = cover.Unasked(before, q.desired, source.objects); err != nil {
		return question{}, unasked(DesiredDiffers, "the request about Machine %s: %v", key, err)
	}
	if err := e.checkUnasked(machine, source, q.unasked); err != nil {
		return question{}, err
	}
	q.quiet = q.quiet && len(q.unasked) > 0
	err = q.setMetadata(machine, live.infrastructure, live.bootstrap, live.infrastructure, live.bootstrap)
	return q, err
}

// unaskedAfter is how long desired objects must differ from what their live source asks for until
// that counts as lasting. The caches of Cluster API lag behind the API server, but not for so long.
const unaskedAfter = time.Minute

// checkUnasked returns an *UnaskedError if desired objects of a Machine have fields that their source
// does not ask for, and did not have just these for a while.
func (e *Engine) checkUnasked(m *clusterv1.Machine, source controlPlaneSource, fields []cover.Pointer) error {
	if len(fields) == 0 {
		e.unasked.Forget(m.UID)
		return nil
	}
	described := cover.Describe(fields)
	if e.unasked.Lasts(m.UID, source.version+" "+described, e.Now()) >= unaskedAfter {
		return nil
	}
	return unasked(DesiredDiffers, "the control plane of Machine %s does not ask for the desired %s", client.ObjectKeyFromObject(m), described)
}

// kubeadmControlPlane is the kind of control plane whose whole desired state is known.
const kubeadmControlPlane = "KubeadmControlPlane"

// controlPlaneSource is what the object that controls a Machine asks for, as cover.Unasked takes it.
type controlPlaneSource struct {
	objects cover.Objects
	// version identifies the object and its spec.
	version string
}

// readControlPlaneSource reads what any control plane asks for: the version, the bootstrap config, and
// the infrastructure machine if spec.machineTemplate.spec.infrastructureRef names its template.
func (e *Engine) readControlPlaneSource(
	ctx context.Context, live *liveObjects, desired runtimehooksv1.CanUpdateMachineRequestObjects,
) (source controlPlaneSource, err error) {
	m := live.machine
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return source, unasked(DesiredDiffers, "Machine %s has no controller that could ask for anything", client.ObjectKeyFromObject(m))
	}
	object := &unstructured.Unstructured{}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	if err := e.ReadProvided(ctx, kind, types.NamespacedName{Namespace: m.Namespace, Name: ref.Name}, object); err != nil {
		return source, err
	}
	source.version = fmt.Sprintf("%s/%d", object.GetUID(), object.GetGeneration())
	v, found, err := unstructured.NestedString(object.Object, "spec", "version")
	if err != nil || !found || v == "" {
		return source, unasked(DesiredDiffers, "%s %s, which controls Machine %s, asks for no version of control plane machines", ref.Kind, ref.Name, m.Name)
	}
	if source.objects.Machine, err = json.Marshal(map[string]any{"spec": map[string]any{"version": v}}); err != nil {
		return source, fmt.Errorf("encoding a version: %w", err)
	}
	template, err := e.readControlPlaneTemplate(ctx, object)
	if err != nil {
		return source, err
	}
	if err := checkDesired(live, template, desired); err != nil {
		return source, err
	}
	if source.objects.Infrastructure, err = SentObject(template); err != nil {
		return source, err
	}
	config, err := configOf(object, live.bootstrap, desired.BootstrapConfig)
	if err != nil {
		return source, err
	}
	source.objects.Bootstrap, err = SentObject(config)
	return source, err
}

// configOf returns live with the spec that a control plane asks it to have; nil if live is nil. The
// spec of a KubeadmConfig is a field of the control plane's spec. Other providers embed it there, as
// an RKE2ControlPlane does: the fields of a bootstrap config are then those that the live or the
// desired one has, because nothing else tells them from the control plane's own.
func configOf(
	controlPlane, live *unstructured.Unstructured, desired runtime.RawExtension,
) (*unstructured.Unstructured, error) {
	if live == nil {
		return nil, nil //nolint:nilnil // There is no such object, which is no error.
	}
	spec, found, _ := unstructured.NestedMap(controlPlane.Object, "spec", "kubeadmConfigSpec")
	if !found && controlPlane.GetKind() != kubeadmControlPlane {
		embedding, _, _ := unstructured.NestedMap(controlPlane.Object, "spec")
		var sent struct {
			Spec map[string]json.RawMessage `json:"spec"`
		}
		if err := untrusted.Object.Unmarshal(rawJSON(desired), &sent); err != nil {
			return nil, unasked(DesiredDiffers, "the request has no %s that can be read", live.GetKind())
		}
		kept, _, _ := unstructured.NestedMap(live.Object, "spec")
		spec = map[string]any{}
		for key, value := range embedding {
			_, isLive := kept[key]
			_, isDesired := sent.Spec[key]
			if isLive || isDesired {
				spec[key] = value
			}
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "spec": spec,
	}}, nil
}

// checkDesired returns an *UnaskedError unless the desired objects of a Machine are of the kinds and
// API versions in which Cluster API makes them. template is that of the infrastructure machine, or nil.
func checkDesired(
	live *liveObjects, template *unstructured.Unstructured, desired runtimehooksv1.CanUpdateMachineRequestObjects,
) error {
	if template == nil && metav1.GetControllerOf(live.machine).Kind == kubeadmControlPlane {
		return unasked(DesiredDiffers, "the %s of Machine %s refers to no template of infrastructure machines", kubeadmControlPlane, live.machine.Name)
	}
	for _, part := range []struct {
		sent runtime.RawExtension
		made *unstructured.Unstructured
	}{
		{desired.InfrastructureMachine, cmp.Or(template, live.infrastructure)}, {desired.BootstrapConfig, live.bootstrap},
	} {
		if part.made != nil {
			if err := checkSent(part.sent, part.made.GroupVersionKind(), DesiredDiffers); err != nil {
				return err
			}
		} else if rawJSON(part.sent) != nil {
			return unasked(DesiredDiffers, "the request has an object that Machine %s does not refer to", live.machine.Name)
		}
	}
	return nil
}

// readControlPlaneTemplate reads what a KubeadmControlPlane asks infrastructure machines to be: an
// object of their kind with the spec of the template; nil for other control planes.
func (e *Engine) readControlPlaneTemplate(
	ctx context.Context, controlPlane *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	fields, found, err := unstructured.NestedMap(controlPlane.Object, "spec", "machineTemplate", "spec", "infrastructureRef")
	if err != nil || !found {
		return nil, nil //nolint:nilerr,nilnil // A field of another shape is another API's.
	}
	var ref clusterv1.ContractVersionedObjectReference
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &ref); err != nil {
		return nil, nil //nolint:nilerr,nilnil // As above.
	}
	template, err := e.ReadReferenced(ctx, controlPlane.GetNamespace(), ref)
	if err != nil || template == nil {
		return nil, err
	}
	spec, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	if err != nil {
		return nil, fmt.Errorf("reading spec.template.spec of %s %s: %w", template.GetKind(), client.ObjectKeyFromObject(template), err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": template.GetAPIVersion(), "kind": strings.TrimSuffix(template.GetKind(), clusterv1.TemplateSuffix), "spec": spec,
	}}, nil
}

// machineSetQuestion is machineQuestion for a CanUpdateMachineSet request. What Machines move to is the template of the MachineDeployment: the MachineSet with
// it need not exist yet.
func (e *Engine) machineSetQuestion(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (question, error) {
	key := client.ObjectKeyFromObject(&request.Current.MachineSet)
	set := &clusterv1.MachineSet{}
	if err := e.Live.Get(ctx, key, set); err != nil {
		return question{}, fmt.Errorf("reading MachineSet %s: %w", key, err)
	}
	deployment := &clusterv1.MachineDeployment{}
	owner := capi.OwnerThrough(set)
	if !owner.IsMachineDeployment() {
		return question{}, unasked(DesiredDiffers, "MachineSet %s belongs to no MachineDeployment that could ask for anything", key)
	}
	if err := e.Live.Get(ctx, owner.NamespacedName, deployment); err != nil {
		return question{}, fmt.Errorf("reading MachineDeployment %s: %w", owner.NamespacedName, err)
	}
	q := question{scope: cover.MachineSet, subject: set, target: capi.TemplateOfSet(&request.Desired.MachineSet), labels: set.Spec.Template.Labels}
	q.quiet = equality.Semantic.DeepEqual(set.Spec.Template.Spec, deployment.Spec.Template.Spec)
	live, err := e.readTemplates(ctx, &set.Spec.Template, set.Namespace, request.Current, CurrentDiffers)
	if err != nil {
		return q, err
	}
	want, err := e.readTemplates(ctx, &deployment.Spec.Template, set.Namespace, request.Desired, DesiredDiffers)
	if err != nil {
		return q, err
	}
	q.quiet = false
	for _, side := range []struct {
		into         *cover.Objects
		sent         runtimehooksv1.CanUpdateMachineSetRequestObjects
		live         cover.Objects
		reason, what string
	}{
		{&q.current, request.Current, live.objects, CurrentDiffers, "current"}, {&q.desired, request.Desired, want.objects, DesiredDiffers, "desired"},
	} {
		if *side.into, err = machineSetObjects(side.sent); err != nil {
			return question{}, fmt.Errorf("reading the %s objects of MachineSet %s: %w", side.what, key, err)
		}
		differing, err := cover.Differing(cover.MachineSet, *side.into, side.live)
		if err != nil {
			return question{}, unasked(side.reason, "the request about MachineSet %s: %v", key, err)
		}
		if len(differing) > 0 {
			return question{}, unasked(side.reason, "the %s objects in the request do not have the live %s of MachineSet %s and MachineDeployment %s",
				side.what, cover.Describe(differing), key, owner.Name)
		}
	}
	err = q.setMetadata(set, live.infrastructure, live.bootstrap, want.infrastructure, want.bootstrap)
	return q, err
}

// liveTemplates are a template of Machines and the templates that it refers to, as the API server has them.
type liveTemplates struct {
	infrastructure, bootstrap *unstructured.Unstructured
	// objects are in the form of a MachineSet's.
	objects cover.Objects
}

func (e *Engine) readTemplates(ctx context.Context, template *clusterv1.MachineTemplateSpec, namespace string, sent runtimehooksv1.CanUpdateMachineSetRequestObjects, reason string) (liveTemplates, error) {
	var l liveTemplates
	var err error
	if l.infrastructure, err = e.readReferenced(ctx, namespace, template.Spec.InfrastructureRef, sent.InfrastructureMachineTemplate, reason); err != nil {
		return l, err
	}
	if l.bootstrap, err = e.readReferenced(ctx, namespace, template.Spec.Bootstrap.ConfigRef, sent.BootstrapConfigTemplate, reason); err != nil {
		return l, err
	}
	err = l.encode(template)
	return l, err
}

func (l *liveTemplates) encode(template *clusterv1.MachineTemplateSpec) (err error) {
	if l.objects.Machine, err = json.Marshal(&clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{Template: *template}}); err != nil {
		return fmt.Errorf("encoding a template of Machines: %w", err)
	}
	if l.objects.Infrastructure, err = SentObject(l.infrastructure); err != nil {
		return err
	}
	l.objects.Bootstrap, err = SentObject(l.bootstrap)
	return err
}

// readMovedTo reads the template of the MachineSet that a Machine has moved to. ok is false if the MachineSet or a template is gone.
func (r *run) readMovedTo(ctx context.Context) (objects cover.Objects, ok bool, err error) {
	ref := metav1.GetControllerOf(r.Object)
	set := &clusterv1.MachineSet{}
	if err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Object.Namespace, Name: ref.Name}, set); err != nil {
		return objects, false, ignoreNotFound(err, "reading MachineSet %s/%s", r.Object.Namespace, ref.Name)
	}
	var l liveTemplates
	template := &set.Spec.Template
	if l.infrastructure, err = r.ReadReferenced(ctx, set.Namespace, template.Spec.InfrastructureRef); err != nil {
		return objects, false, ignoreNotFound(err, "reading the templates of MachineSet %s", client.ObjectKeyFromObject(set))
	}
	if l.bootstrap, err = r.ReadReferenced(ctx, set.Namespace, template.Spec.Bootstrap.ConfigRef); err != nil {
		return objects, false, ignoreNotFound(err, "reading the templates of MachineSet %s", client.ObjectKeyFromObject(set))
	}
	err = l.encode(template)
	return l.objects, err == nil, err
}

func ignoreNotFound(err error, format string, args ...any) error {
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf(format+": %w", append(args, err)...)
	}
	return nil
}

// setMetadata gives the objects of a question the metadata of live objects. Only specs were compared.
func (q *question) setMetadata(subject client.Object, infrastructure, bootstrap, desiredInfrastructure, desiredBootstrap *unstructured.Unstructured) error {
	owner := sentMetadata(subject)
	for _, part := range []struct {
		raw  *json.RawMessage
		live *unstructured.Unstructured
	}{
		{&q.current.Machine, owner}, {&q.current.Infrastructure, infrastructure}, {&q.current.Bootstrap, bootstrap},
		{&q.desired.Machine, owner}, {&q.desired.Infrastructure, desiredInfrastructure}, {&q.desired.Bootstrap, desiredBootstrap},
	} {
		changed, err := setMetadata(*part.raw, part.live)
		if err != nil {
			return fmt.Errorf("reading the objects in the request about %s: %w", client.ObjectKeyFromObject(subject), err)
		}
		*part.raw = changed
	}
	return nil
}
