package updaters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// HookPath is the path of a hook's handler, as Cluster API makes it.
func HookPath(hook, handler string) string {
	return runtimecatalog.GVHToPath(runtimecatalog.GroupVersionHook{
		Group: runtimehooksv1.GroupVersion.Group, Version: runtimehooksv1.GroupVersion.Version, Hook: hook,
	}, handler)
}

// ErrHandOver is the cause of an Error about an updater that was asked by hooks and answered as hand-over updaters do.
var ErrHandOver = errors.New("this is a hand-over updater")

// handOverResponse is the type of a hand-over updater's answers.
var handOverResponse = schema.FromAPIVersionAndKind(updatesv1.APIVersion, updatesv1.HandOverResponseKind)

// Call sends the request of a hook, which carries its type, to a handler, and decodes the response.
// Errors are *Error; a response with the status Failure is one of the class Refused.
func (c *Client) Call(ctx context.Context, hook, handler string, request any, response runtimehooksv1.ResponseObject) error {
	below := HookPath(hook, handler)
	body, err := json.Marshal(request)
	if err != nil {
		return c.Nonsense(below, "the request cannot be written as JSON", "check the objects of the machine", err)
	}
	content, err := c.Post(ctx, below, true, body)
	if err != nil {
		return err
	}
	if err := untrusted.Object.Unmarshal(content, response); err != nil {
		return c.Nonsense(below, "the answer is not the JSON of a "+hook+"Response", "answer as the hook's definition says", err)
	}
	return c.checkResponse(hook, below, response)
}

// checkResponse refuses a response of another type, and one that is no success. Cluster API's own server leaves the type out.
func (c *Client) checkResponse(hook, below string, response runtimehooksv1.ResponseObject) error {
	want := runtimehooksv1.GroupVersion.WithKind(hook + "Response")
	if got := response.GetObjectKind().GroupVersionKind(); !got.Empty() && got != want {
		problem := fmt.Sprintf("the answer is a %s of %s", CleanWord(got.Kind), CleanWord(got.GroupVersion().String()))
		if got == handOverResponse {
			return c.Nonsense(below, problem, "set spec.remote.protocol: HandOver in the Updater", ErrHandOver)
		}
		return c.Nonsense(below, problem, fmt.Sprintf("answer with a %s of %s", want.Kind, want.GroupVersion()), nil)
	}
	switch status := response.GetStatus(); status {
	case runtimehooksv1.ResponseStatusSuccess:
		return nil
	case runtimehooksv1.ResponseStatusFailure:
		return c.Refused(below, response.GetMessage())
	default:
		return c.Nonsense(below, fmt.Sprintf("the answer has the status %q", CleanWord(string(status))), "answer Success or Failure", nil)
	}
}

// MachinePatches returns the patches of a response to CanUpdateMachine.
func MachinePatches(r *runtimehooksv1.CanUpdateMachineResponse) cover.Patches {
	return patchesOf(r.MachinePatch, r.InfrastructureMachinePatch, r.BootstrapConfigPatch)
}

// MachineSetPatches returns the patches of a response to CanUpdateMachineSet.
func MachineSetPatches(r *runtimehooksv1.CanUpdateMachineSetResponse) cover.Patches {
	return patchesOf(r.MachineSetPatch, r.InfrastructureMachineTemplatePatch, r.BootstrapConfigTemplatePatch)
}

func patchesOf(machine, infrastructure, bootstrap runtimehooksv1.Patch) cover.Patches {
	decode := func(p runtimehooksv1.Patch) cover.Patch {
		return cover.Patch{Type: cover.PatchType(p.PatchType), Data: p.Patch}
	}
	return cover.Patches{Machine: decode(machine), Infrastructure: decode(infrastructure), Bootstrap: decode(bootstrap)}
}
