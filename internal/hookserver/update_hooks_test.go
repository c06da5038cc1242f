package hookserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// scriptedUpdates gives the same answer to every hook.
type scriptedUpdates struct {
	answer cover.Answer
	reply  inplace.Reply
	err    error
}

func (s *scriptedUpdates) CanUpdateMachine(context.Context, *runtimehooksv1.CanUpdateMachineRequest) (cover.Answer, error) {
	return s.answer, s.err
}

func (s *scriptedUpdates) CanUpdateMachineSet(context.Context, *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Answer, error) {
	return s.answer, s.err
}

func (s *scriptedUpdates) UpdateMachine(context.Context, *runtimehooksv1.UpdateMachineRequest) (inplace.Reply, error) {
	return s.reply, s.err
}

// askUpdateHooks asks the three hooks for updates in place, and returns their answers.
func askUpdateHooks(t *testing.T, s *scriptedUpdates) (
	runtimehooksv1.CanUpdateMachineResponse, runtimehooksv1.CanUpdateMachineSetResponse, runtimehooksv1.UpdateMachineResponse,
) {
	t.Helper()
	hooks, err := hookserver.New(hookserver.Options{Endpoint: hookserver.Endpoint{Port: 1, CertDir: t.TempDir()}, Updates: s})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]server.ExtensionHandler{}
	for _, h := range hooks.Handlers() {
		byName[h.Name] = h
	}
	var (
		machine runtimehooksv1.CanUpdateMachineResponse
		set     runtimehooksv1.CanUpdateMachineSetResponse
		update  runtimehooksv1.UpdateMachineResponse
	)
	canUpdateMachine, ok := byName[hookserver.CanUpdateMachineHandler].HandlerFunc.(func(
		context.Context, *runtimehooksv1.CanUpdateMachineRequest, *runtimehooksv1.CanUpdateMachineResponse))
	if !ok {
		t.Fatal("CanUpdateMachine is not served")
	}
	canUpdateMachine(t.Context(), &runtimehooksv1.CanUpdateMachineRequest{}, &machine)
	canUpdateSet, ok := byName[hookserver.CanUpdateMachineSetHandler].HandlerFunc.(func(
		context.Context, *runtimehooksv1.CanUpdateMachineSetRequest, *runtimehooksv1.CanUpdateMachineSetResponse))
	if !ok {
		t.Fatal("CanUpdateMachineSet is not served")
	}
	canUpdateSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{}, &set)
	updateMachine, ok := byName[hookserver.UpdateMachineHandler].HandlerFunc.(func(
		context.Context, *runtimehooksv1.UpdateMachineRequest, *runtimehooksv1.UpdateMachineResponse))
	if !ok {
		t.Fatal("UpdateMachine is not served")
	}
	updateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{}, &update)
	return machine, set, update
}

// TestUpdateHooks holds what Cluster API gets as the answers to the hooks for updates in place: the
// patches, whether to ask again, and the reason of a refusal.
func TestUpdateHooks(t *testing.T) {
	t.Parallel()
	patch := func(part string) cover.Patch {
		return cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"` + part + `":1}}`)}
	}
	machine, set, update := askUpdateHooks(t, &scriptedUpdates{
		answer: cover.Answer{
			Message: "by kubelet", Patches: cover.Patches{Machine: patch("a"), Infrastructure: patch("b"), Bootstrap: patch("c")},
		},
		reply: inplace.Reply{RetryAfter: 1200 * time.Millisecond, Message: "at work"},
	})
	sent := func(part string) runtimehooksv1.Patch {
		return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType, Patch: patch(part).Data}
	}
	want := []runtimehooksv1.Patch{sent("a"), sent("b"), sent("c")}
	got := []runtimehooksv1.Patch{machine.MachinePatch, machine.InfrastructureMachinePatch, machine.BootstrapConfigPatch}
	if diff := cmp.Diff(want, got); diff != "" || machine.Status != runtimehooksv1.ResponseStatusSuccess || machine.Message != "by kubelet" {
		t.Errorf("CanUpdateMachine: %+v (-want +got)\n%s", machine, diff)
	}
	got = []runtimehooksv1.Patch{set.MachineSetPatch, set.InfrastructureMachineTemplatePatch, set.BootstrapConfigTemplatePatch}
	if diff := cmp.Diff(want, got); diff != "" || set.Status != runtimehooksv1.ResponseStatusSuccess || set.Message != "by kubelet" {
		t.Errorf("CanUpdateMachineSet: %+v (-want +got)\n%s", set, diff)
	}
	if update.Status != runtimehooksv1.ResponseStatusSuccess || update.RetryAfterSeconds != 2 || update.Message != "at work" {
		t.Errorf("UpdateMachine while it continues: %+v", update)
	}

	_, _, update = askUpdateHooks(t, &scriptedUpdates{reply: inplace.Reply{Done: true}})
	if update.Status != runtimehooksv1.ResponseStatusSuccess || update.RetryAfterSeconds != 0 {
		t.Errorf("UpdateMachine at the end: %+v", update)
	}

	machine, set, update = askUpdateHooks(t, &scriptedUpdates{err: errors.New("declined: no power")})
	for hook, response := range map[string]runtimehooksv1.CommonResponse{
		"CanUpdateMachine": machine.CommonResponse, "CanUpdateMachineSet": set.CommonResponse, "UpdateMachine": update.CommonResponse,
	} {
		if response.Status != runtimehooksv1.ResponseStatusFailure || response.Message != "declined: no power" {
			t.Errorf("%s after a refusal: %+v", hook, response)
		}
	}
}

// TestNotCovered holds that an answer which wraps a cover.NotCoveredError has its prefix, and is a
// Failure without patches. That to UpdateMachine has no prefix.
func TestNotCovered(t *testing.T) {
	t.Parallel()
	patch := cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"a":1}}`)}
	machine, set, update := askUpdateHooks(t, &scriptedUpdates{
		answer: cover.Answer{Patches: cover.Patches{Machine: patch, Bootstrap: patch}},
		err:    fmt.Errorf("ns/md: %w", &cover.NotCoveredError{Message: "no updater covers x"}),
	})
	fails := func(message string) runtimehooksv1.CommonResponse {
		return runtimehooksv1.CommonResponse{
			Status: runtimehooksv1.ResponseStatusFailure, Message: message,
		}
	}
	const refusal = "ns/md: no updater covers x"
	if diff := cmp.Diff(runtimehooksv1.CanUpdateMachineResponse{
		CommonResponse: fails(cover.NotCoveredPrefix + " " + refusal),
	}, machine); diff != "" {
		t.Errorf("CanUpdateMachine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(runtimehooksv1.CanUpdateMachineSetResponse{
		CommonResponse: fails(cover.NotCoveredPrefix + " " + refusal),
	}, set); diff != "" {
		t.Errorf("CanUpdateMachineSet (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fails(refusal), update.CommonResponse); diff != "" {
		t.Errorf("UpdateMachine (-want +got):\n%s", diff)
	}
}
