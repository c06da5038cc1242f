// Command updater is a complete updater: it moves machines to another Kubernetes version by running a command for each. It
// needs nothing of Windlass; docs/how-to/write-an-updater.md goes through it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
)

// options are the flags.
type options struct {
	bindAddress string
	port        int
	certDir     string
	inventory   string
	stateDir    string
	command     string
}

func main() {
	var o options
	flag.StringVar(&o.bindAddress, "bind-address", "127.0.0.1", "address to serve on")
	flag.IntVar(&o.port, "port", 9443, "port to serve on")
	flag.StringVar(&o.certDir, "cert-dir", "certs", "folder with tls.crt and tls.key")
	flag.StringVar(&o.inventory, "inventory", "inventory.json", `file with the machines, as in {"default/worker-0": "10.0.0.7"}`)
	flag.StringVar(&o.stateDir, "state-dir", "state", "folder for what has been done")
	flag.StringVar(&o.command, "command", "./update.sh", "program that updates a host; its arguments are the host and the version")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "updater:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	content, err := os.ReadFile(o.inventory)
	if err != nil {
		return fmt.Errorf("reading the inventory: %w", err)
	}
	u := &updater{work: ctx, stateDir: o.stateDir, command: o.command, jobs: map[string]*job{}}
	if err := json.Unmarshal(content, &u.hosts); err != nil {
		return fmt.Errorf("reading the inventory: %w", err)
	}
	if err := os.MkdirAll(o.stateDir, 0o750); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return fmt.Errorf("building the catalog of hooks: %w", err)
	}
	s, err := server.New(server.Options{Catalog: catalog, Host: o.bindAddress, Port: o.port, CertDir: o.certDir})
	if err != nil {
		return fmt.Errorf("creating the server: %w", err)
	}
	for _, handler := range []server.ExtensionHandler{
		{Hook: runtimehooksv1.CanUpdateMachine, Name: "can-update-machine", HandlerFunc: canUpdateMachine},
		{Hook: runtimehooksv1.CanUpdateMachineSet, Name: "can-update-machine-set", HandlerFunc: canUpdateMachineSet},
		{Hook: runtimehooksv1.UpdateMachine, Name: "update-machine", HandlerFunc: u.updateMachine},
	} {
		if err := s.AddExtensionHandler(handler); err != nil {
			return fmt.Errorf("adding the handler %s: %w", handler.Name, err)
		}
	}
	if err := s.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// canUpdateMachine covers the version, and nothing else.
func canUpdateMachine(_ context.Context, request *runtimehooksv1.CanUpdateMachineRequest, response *runtimehooksv1.CanUpdateMachineResponse) {
	patch, err := versionPatch("/spec/version", request.Current.Machine.Spec.Version, request.Desired.Machine.Spec.Version)
	answer(response, err)
	response.MachinePatch = patch
}

// canUpdateMachineSet covers the version of all machines of a MachineSet.
func canUpdateMachineSet(_ context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, response *runtimehooksv1.CanUpdateMachineSetResponse) {
	current, desired := request.Current.MachineSet.Spec.Template.Spec, request.Desired.MachineSet.Spec.Template.Spec
	patch, err := versionPatch("/spec/template/spec/version", current.Version, desired.Version)
	answer(response, err)
	response.MachineSetPatch = patch
}

// versionPatch says which change is covered: current as it will be. It is empty where there is nothing to cover.
func versionPatch(path, current, desired string) (runtimehooksv1.Patch, error) {
	if current == desired || desired == "" {
		return runtimehooksv1.Patch{}, nil
	}
	content, err := json.Marshal([]map[string]string{{"op": "add", "path": path, "value": desired}})
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("writing the patch: %w", err)
	}
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: content}, nil
}

// answer sets the status of a response.
func answer(response runtimehooksv1.ResponseObject, err error) {
	if err != nil {
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage(err.Error())
		return
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
}
