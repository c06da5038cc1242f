package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/hookclient"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// replies is an engine with one answer.
type replies struct {
	reply inplace.Reply
	err   error
}

func (r replies) UpdateMachine(context.Context, *runtimehooksv1.UpdateMachineRequest) (inplace.Reply, error) {
	return r.reply, r.err
}

// owners is an engine that answers with the owner of a Machine, and its version.
type owners struct{}

func (owners) UpdateMachine(
	_ context.Context, request *runtimehooksv1.UpdateMachineRequest,
) (inplace.Reply, error) {
	machine := &request.Desired.Machine
	owner := metav1.GetControllerOf(machine)
	if owner == nil {
		return inplace.Reply{}, errors.New("the Machine has no owner")
	}
	return inplace.Reply{
		Message:    fmt.Sprintf("%s %s to %s", owner.Kind, owner.Name, machine.Spec.Version),
		RetryAfter: time.Second,
	}, nil
}

// ownedBy returns a Machine that an object controls.
func ownedBy(apiVersion, kind string, labels map[string]string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "uid", Controller: new(true)},
		},
	}}
	m.Spec.Version = "v1.35.0"
	return m
}

// TestMarkedMachines asks as Cluster API's Machine controller does, without any ExtensionConfig. It takes an
// answer without an error and without a time to ask again for a finished update.
func TestMarkedMachines(t *testing.T) {
	t.Parallel()
	type answer struct {
		Extensions, Retry int
		Message, Err      string
	}
	for name, tt := range map[string]struct {
		updates hookserver.MarkedUpdates
		// machine is the one that is asked about; nil for one without an owner.
		machine *clusterv1.Machine
		want    answer
	}{
		"of a control plane": {
			updates: owners{},
			machine: ownedBy("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane",
				map[string]string{clusterv1.MachineControlPlaneLabel: ""}),
			want: answer{Extensions: 1, Retry: 1, Message: "KubeadmControlPlane owner to v1.35.0"},
		},
		"of a MachineSet": {
			updates: owners{}, machine: ownedBy("cluster.x-k8s.io/v1beta2", "MachineSet", nil),
			want: answer{Extensions: 1, Retry: 1, Message: "MachineSet owner to v1.35.0"},
		},
		"at work": {
			updates: replies{reply: inplace.Reply{Message: "step 1 of 2: drain", RetryAfter: 1500 * time.Millisecond}},
			want:    answer{Extensions: 1, Message: "step 1 of 2: drain", Retry: 2},
		},
		"done": {
			updates: replies{reply: inplace.Reply{Done: true, Message: "done"}}, want: answer{Extensions: 1, Message: "done"},
		},
		"CRDs are missing": {updates: notInstalled{}, want: answer{Extensions: 1, Err: "hook UpdateMachine, handler " +
			`"update-machine" of this process: the extension answered Failure: cannot update Machine ns/m in place: ` +
			"no extension for the hook UpdateMachine is registered, and the CRDs of Updater and UpdatePolicy are " +
			"missing. Fix: register the extension that decided on the update, or install the CRDs with kubectl " +
			"apply -k config/crd, create an Updater and an UpdatePolicy, and restart this manager"}},
	} {
		catalog := runtimecatalog.New()
		if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
			t.Fatal(err)
		}
		c, err := hookclient.New(hookclient.Options{
			Catalog: catalog, Fallback: []server.ExtensionHandler{hookserver.MarkedMachines(tt.updates)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
			t.Fatal(err)
		}
		machine := tt.machine
		if machine == nil {
			machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
		}
		extensions, err := c.GetAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine)
		if err != nil {
			t.Fatal(err)
		}
		request := &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *machine}}
		response := &runtimehooksv1.UpdateMachineResponse{}
		err = c.CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine, request, response)
		got := answer{Extensions: len(extensions), Retry: int(response.RetryAfterSeconds), Message: response.Message}
		if err != nil {
			got.Err = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNotInstalledIsShort keeps the cause within what people read at a glance.
func TestNotInstalledIsShort(t *testing.T) {
	t.Parallel()
	_, err := notInstalled{}.UpdateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{})
	if cause, _, found := strings.Cut(err.Error(), "Fix: "); !found || len(cause) > 200 {
		t.Errorf("%d bytes: %s", len(cause), cause)
	}
}

// sweeps counts the writing parts of a sweep.
type sweeps struct{ unblocked, machines int }

func (s *sweeps) Unblock(context.Context) error       { s.unblocked++; return nil }
func (s *sweeps) SweepMachines(context.Context) error { s.machines++; return nil }
func (s *sweeps) FindBlocked(context.Context, []schema.GroupVersionKind) error {
	return nil
}

// TestSweptWhile sweeps nothing while another process serves the extension.
func TestSweptWhile(t *testing.T) {
	t.Parallel()
	for _, serves := range []bool{false, true} {
		counted := &sweeps{}
		s := sweptWhile{Swept: counted, serves: func(context.Context) bool { return serves }}
		if err := errors.Join(s.Unblock(t.Context()), s.SweepMachines(t.Context())); err != nil {
			t.Fatal(err)
		}
		want := sweeps{}
		if serves {
			want = sweeps{unblocked: 1, machines: 1}
		}
		if *counted != want {
			t.Errorf("serves %v: %+v", serves, *counted)
		}
	}
}
