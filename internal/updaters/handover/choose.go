package handover

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// Choose implements port.Chooser: it asks the implementer which machines of a group begin now. Errors of the exchange are
// *updaters.Error.
func (u *Updater) Choose(ctx context.Context, c port.Candidates) (port.Choice, error) {
	first := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: c.Machines[0].Namespace, Name: c.Machines[0].Name}}
	owner, err := u.findOwner(ctx, first)
	if err != nil {
		return port.Choice{}, err
	}
	request := updatesv1.HandOverRequest{
		Phase: updatesv1.Choose, Cluster: updatesv1.ObjectName(c.Cluster), Owner: owner, Free: c.Free,
	}
	if !c.Deadline.IsZero() {
		request.Deadline = metav1.NewTime(c.Deadline)
	}
	for _, name := range c.Machines {
		request.Machines = append(request.Machines, updatesv1.ObjectName(name))
	}
	response, err := u.Send(ctx, request)
	if err != nil {
		return port.Choice{}, err
	}
	choice, unknown := choiceOf(c.Machines, response)
	if unknown != nil {
		problem := fmt.Sprintf("it chooses %s, which is not one of the machines of the request", updaters.CleanWord(unknown.String()))
		return port.Choice{}, u.client.Nonsense("", problem, "choose machines of the request", nil)
	}
	return choice, nil
}

// choiceOf reads a response about candidates. unknown is a machine in it that is none of them; nil if all are.
func choiceOf(candidates []types.NamespacedName, r updatesv1.HandOverResponse) (choice port.Choice, unknown *types.NamespacedName) {
	if !r.Accepted {
		return port.Choice{Reason: r.Reason}, nil
	}
	if len(r.Machines) == 0 {
		return port.Choice{Machines: candidates}, nil
	}
	for _, machine := range r.Machines {
		if name := types.NamespacedName(machine); !slices.Contains(candidates, name) {
			return port.Choice{}, &name
		}
	}
	for _, candidate := range candidates {
		if slices.Contains(r.Machines, updatesv1.ObjectName(candidate)) {
			choice.Machines = append(choice.Machines, candidate)
		}
	}
	return choice, nil
}
