package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
)

// entry is a machine of the inventory.
type entry struct {
	// Machine is namespace/name of its Machine.
	Machine string `json:"machine"`
	Host    string `json:"host"`
}

func nameOf(machine updatesv1.ObjectName) string { return machine.Namespace + "/" + machine.Name }

// place returns the place of a machine in the inventory; -1 if it is not there.
func (u *updater) place(machine updatesv1.ObjectName) int {
	return slices.IndexFunc(u.inventory, func(e entry) bool { return e.Machine == nameOf(machine) })
}

// offer accepts a change of the version alone, or any change if the command makes it, on machines of the inventory.
func (u *updater) offer(request *updatesv1.HandOverRequest) error {
	for _, machine := range request.Machines {
		if u.place(machine) < 0 {
			return fmt.Errorf("the Machine %s is not in the inventory", nameOf(machine))
		}
	}
	if request.Current == nil || request.Desired == nil || u.options.anyChange {
		return nil // An offer of nothing asks whether this program is there.
	}
	for what, pair := range map[string][2]runtime.RawExtension{
		"Machine":                {request.Current.Machine, request.Desired.Machine},
		"infrastructure machine": {request.Current.InfrastructureMachine, request.Desired.InfrastructureMachine},
		"bootstrap config":       {request.Current.BootstrapConfig, request.Desired.BootstrapConfig},
	} {
		current, err := specOf(pair[0])
		if err != nil {
			return err
		}
		desired, err := specOf(pair[1])
		if err != nil {
			return err
		}
		if what == "Machine" {
			// The references are the names of templates, and no part of the machine.
			for _, field := range []string{"version", "bootstrap", "infrastructureRef"} {
				delete(current, field)
				delete(desired, field)
			}
		}
		if !reflect.DeepEqual(current, desired) {
			return fmt.Errorf("only the version can be changed, and the spec of the %s differs", what)
		}
	}
	return nil
}

// specOf decodes the spec of an object.
func specOf(object runtime.RawExtension) (map[string]any, error) {
	if len(object.Raw) == 0 || string(object.Raw) == "null" {
		return nil, nil
	}
	var fields struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(object.Raw, &fields); err != nil {
		return nil, fmt.Errorf("reading an object of the request: %w", err)
	}
	return fields.Spec, nil
}

// choose lets machines begin in the order of the inventory, and none while the hold file exists. Windlass begins with a
// machine anyway after the request's deadline.
func (u *updater) choose(request *updatesv1.HandOverRequest) ([]updatesv1.ObjectName, error) {
	if _, err := os.Stat(u.options.holdFile); err == nil {
		return nil, fmt.Errorf("the file %s exists", u.options.holdFile)
	}
	known := slices.DeleteFunc(slices.Clone(request.Machines), func(m updatesv1.ObjectName) bool { return u.place(m) < 0 })
	if len(known) == 0 {
		return nil, errors.New("none of the machines is in the inventory")
	}
	slices.SortFunc(known, func(a, b updatesv1.ObjectName) int { return u.place(a) - u.place(b) })
	return known[:min(len(known), max(request.Free, 1))], nil
}
