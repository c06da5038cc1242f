package handover

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// NoReason stands for the reason of an updater that declines without one.
const NoReason = "it gave no reason"

// DeclinedError is the error of CanUpdateMachine and CanUpdateMachineSet when the updater was asked and does not want the machines:
// it covers nothing, which is no fault.
type DeclinedError struct {
	Updater string
	// Reason is in the updater's own words.
	Reason string
}

// Error implements error.
func (d *DeclinedError) Error() string {
	return fmt.Sprintf("updater %s declines: %s", d.Updater, d.Reason)
}

// Declined reports true. It tells this error from others without knowing its type.
func (*DeclinedError) Declined() bool { return true }

// Options say how an updater is reached, and what is looked up for it.
type Options struct {
	// ClientOptions reach the updater. Requests are posted to their URL itself.
	updaters.ClientOptions
	// Machines lists the metadata of the Machines with these labels.
	Machines func(ctx context.Context, namespace string, labels map[string]string) ([]metav1.PartialObjectMetadata, error)
	// MachineAnnotations reads the annotations of a live Machine, not of a cached one; a NotFound error of apimachinery where
	// it does not exist.
	MachineAnnotations func(ctx context.Context, machine types.NamespacedName) (map[string]string, error)
	// Owner finds the object that wants a Machine updated; nil means what the Machine's labels say.
	Owner func(ctx context.Context, machine types.NamespacedName) (updatesv1.Owner, error)
}

// Updater is a port.Updater that hands machines over. It is safe for concurrent use.
type Updater struct {
	// Ready answers without a request: the implementer has accepted the machines.
	updaters.Ready

	options Options
	client  *updaters.Client

	// sending is held while an operation is handed over, so that it is not sent twice at once, and
	// accepted are the operations that were.
	sending  keyed.Locks[string]
	accepted keyed.Memory[string, struct{}]
}

var _ port.Chooser = &Updater{}

// New returns an Updater. It does not connect yet; Check does. Errors are about the options.
func New(o Options) (*Updater, error) {
	if o.Machines == nil || o.MachineAnnotations == nil {
		return nil, fmt.Errorf("updater %s: handing over needs Machines and MachineAnnotations", o.Name)
	}
	client, err := updaters.NewClient(o.ClientOptions)
	if err != nil {
		return nil, err
	}
	return &Updater{options: o, client: client, accepted: keyed.Memory[string, struct{}]{Most: maxStarts}}, nil
}

// Close closes idle connections. The Updater can be used on.
func (u *Updater) Close() { u.client.Close() }

// Check implements port.Updater: it offers nothing, and is content with any answer.
func (u *Updater) Check(ctx context.Context) error {
	_, err := u.Send(ctx, updatesv1.HandOverRequest{Phase: updatesv1.Offer})
	return err
}

// CanUpdateMachine implements port.Updater. An updater that declines covers nothing, with a *DeclinedError as error; other errors
// are *updaters.Error.
func (u *Updater) CanUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	current, desired, err := updaters.MachineObjects(request)
	if err != nil {
		return cover.Patches{}, err
	}
	return u.decide(ctx, cover.Machine, current, desired, func(ctx context.Context) (updatesv1.HandOverRequest, error) {
		m := &request.Desired.Machine
		owner, err := u.findOwner(ctx, m)
		if err != nil {
			return updatesv1.HandOverRequest{}, err
		}
		group, err := u.listGroup(ctx, m, owner, m.Spec.ClusterName)
		if err != nil {
			return updatesv1.HandOverRequest{}, err
		}
		return updatesv1.HandOverRequest{
			Cluster: updatesv1.ObjectName{Namespace: m.Namespace, Name: m.Spec.ClusterName}, Owner: owner,
			Machines: []updatesv1.ObjectName{{Namespace: m.Namespace, Name: m.Name}}, Group: namesOf(group),
			Current: new(objectsOf(current)), Desired: new(objectsOf(desired)),
		}, nil
	})
}

// CanUpdateMachineSet implements port.Updater, as CanUpdateMachine.
func (u *Updater) CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	current, desired, err := updaters.MachineSetObjects(request)
	if err != nil {
		return cover.Patches{}, err
	}
	return u.decide(ctx, cover.MachineSet, current, desired, func(ctx context.Context) (updatesv1.HandOverRequest, error) {
		return u.offerMachineSet(ctx, request, current, desired)
	})
}

// offerMachineSet offers all Machines of the MachineSet that they would leave.
func (u *Updater) offerMachineSet(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, current, desired cover.Objects,
) (updatesv1.HandOverRequest, error) {
	set := &request.Current.MachineSet
	group, err := u.listGroup(ctx, set, ownerOf(set), set.Spec.ClusterName)
	if err != nil {
		return updatesv1.HandOverRequest{}, err
	}
	before, err := instantiate(set, current)
	if err != nil {
		return updatesv1.HandOverRequest{}, err
	}
	after, err := instantiate(&request.Desired.MachineSet, desired)
	return updatesv1.HandOverRequest{
		Cluster: updatesv1.ObjectName{Namespace: set.Namespace, Name: set.Spec.ClusterName}, Owner: ownerOf(set),
		Machines: namesOf(ownedBy(group, set)), Group: namesOf(group), Current: &before, Desired: &after,
	}, err
}

// listGroup lists the Machines of the group of an owner, to which a Machine or MachineSet belongs. Those
// without the group's labels are left out.
func (u *Updater) listGroup(
	ctx context.Context, member metav1.Object, owner updatesv1.Owner, cluster string,
) ([]metav1.PartialObjectMetadata, error) {
	group, err := u.options.Machines(ctx, member.GetNamespace(), groupLabels(owner, member, cluster))
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of the group of %s/%s: %w", member.GetNamespace(), member.GetName(), err)
	}
	return slices.DeleteFunc(group, func(m metav1.PartialObjectMetadata) bool {
		return !isOfGroup(&m, owner)
	}), nil
}

// decide offers a change, where there is one, and gives the patches for all of it if the updater accepts.
func (u *Updater) decide(ctx context.Context, scope cover.Scope, current, desired cover.Objects,
	makeOffer func(context.Context) (updatesv1.HandOverRequest, error),
) (cover.Patches, error) {
	difference, err := computeDifference(scope, current, desired)
	if err != nil {
		return cover.Patches{}, err
	}
	if len(difference) == 0 {
		return cover.Patches{}, ctx.Err()
	}
	patches, err := updaters.Patches(difference, scope, current, desired)
	if err != nil {
		return cover.Patches{}, err
	}
	offer, err := makeOffer(ctx)
	if err != nil {
		return cover.Patches{}, err
	}
	offer.Phase = updatesv1.Offer
	response, err := u.Send(ctx, offer)
	if err != nil {
		return cover.Patches{}, err
	}
	if !response.Accepted {
		return cover.Patches{}, &DeclinedError{Updater: u.options.Name, Reason: response.Reason}
	}
	return patches, nil
}

// findOwner finds the object that wants a Machine updated.
func (u *Updater) findOwner(ctx context.Context, machine *clusterv1.Machine) (updatesv1.Owner, error) {
	if u.options.Owner == nil {
		return ownerOf(machine), nil
	}
	owner, err := u.options.Owner(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name})
	if err != nil {
		return updatesv1.Owner{}, fmt.Errorf("finding the owner of Machine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	return owner, nil
}

// Send sends a request and checks the response, whose reason it cleans. Errors are *updaters.Error.
func (u *Updater) Send(ctx context.Context, request updatesv1.HandOverRequest) (updatesv1.HandOverResponse, error) {
	request.APIVersion, request.Kind = updatesv1.APIVersion, updatesv1.HandOverRequestKind
	if request.Machines == nil {
		request.Machines = []updatesv1.ObjectName{}
	}
	var response updatesv1.HandOverResponse
	body, err := json.Marshal(request)
	if err != nil {
		return response, u.client.Nonsense("", "the request cannot be written as JSON", "check the objects of the machine", err)
	}
	content, err := u.client.Post(ctx, "", false, body)
	if err != nil {
		return response, err
	}
	return u.parseResponse(content)
}

// parseResponse checks a response and cleans its reason. Errors are *updaters.Error.
func (u *Updater) parseResponse(content []byte) (response updatesv1.HandOverResponse, err error) {
	if err := untrusted.Object.Unmarshal(content, &response); err != nil {
		return response, u.client.Nonsense("", "the answer is not the JSON of a "+updatesv1.HandOverResponseKind, "answer as the protocol says", err)
	}
	if response.APIVersion != updatesv1.APIVersion || response.Kind != updatesv1.HandOverResponseKind {
		return response, u.client.Nonsense("", fmt.Sprintf("the answer is a %q of %q", updaters.CleanWord(response.Kind), updaters.CleanWord(response.APIVersion)),
			fmt.Sprintf("answer with a %s of %s", updatesv1.HandOverResponseKind, updatesv1.APIVersion), nil)
	}
	if response.Reason = updaters.CleanMessage(response.Reason); response.Reason == "" && !response.Accepted {
		response.Reason = NoReason
	}
	return response, nil
}
