package conformance

import (
	_ "embed"
	"encoding/json"
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/yaml"
)

//go:embed fixture.yaml
var defaultFixture []byte

// maxFixtureBytes bounds a fixture.
const maxFixtureBytes = 8 << 20

// Fixture are the requests that an updater is asked. A member that is nil is asked nothing.
type Fixture struct {
	// CanUpdateMachine and CanUpdateMachineSet should be changes that the updater covers; they have no effect.
	CanUpdateMachine    *runtimehooksv1.CanUpdateMachineRequest    `json:"canUpdateMachine,omitempty"`
	CanUpdateMachineSet *runtimehooksv1.CanUpdateMachineSetRequest `json:"canUpdateMachineSet,omitempty"`
	// UpdateMachine is a real Machine that may be updated.
	UpdateMachine *runtimehooksv1.UpdateMachineRequest `json:"updateMachine,omitempty"`
}

// DefaultFixture is a change of the Kubernetes version, for a Machine and a MachineSet; nothing is updated.
func DefaultFixture() (*Fixture, error) { return ParseFixture(defaultFixture) }

// ParseFixture parses a Fixture from YAML or JSON. Unknown fields are errors.
func ParseFixture(content []byte) (*Fixture, error) {
	if len(content) > maxFixtureBytes {
		return nil, fmt.Errorf("the fixture has %d bytes; at most %d are read", len(content), maxFixtureBytes)
	}
	fixture := &Fixture{}
	if err := yaml.UnmarshalStrict(content, fixture); err != nil {
		return nil, fmt.Errorf("reading the fixture: %w; docs/how-to/write-an-updater.md shows one", err)
	}
	if fixture.CanUpdateMachine == nil && fixture.CanUpdateMachineSet == nil && fixture.UpdateMachine == nil {
		return nil, fmt.Errorf("reading the fixture: it has none of canUpdateMachine, canUpdateMachineSet and updateMachine")
	}
	if r := fixture.UpdateMachine; r != nil && (r.Desired.Machine.Name == "" || r.Desired.Machine.Namespace == "") {
		return nil, fmt.Errorf("reading the fixture: updateMachine.desired.machine needs metadata.name and metadata.namespace of a real Machine")
	}
	return fixture, nil
}

// asMap turns a request into the fields of its JSON, which the points change at will.
func asMap(request any) (map[string]any, error) {
	content, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("writing the fixture's request: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, fmt.Errorf("reading the fixture's request: %w", err)
	}
	return fields, nil
}
