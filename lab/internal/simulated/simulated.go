package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// Options configure an Updater.
type Options struct {
	// Nodes is where nodes are read and their kubelet version is set.
	Nodes Nodes
	// NodeName gives the name of a machine's node; a NotFound error of apimachinery where the Machine does not exist, and an
	// empty name where it has no node yet. Requests do not hold it: Cluster API drops the status.
	NodeName func(ctx context.Context, machine types.NamespacedName) (string, error)
	// Claims are the fields that the updater says it covers; none means VersionClaim. Fields other than VersionClaim are not
	// applied anywhere: that the work was done is only remembered.
	Claims []cover.Pointer
	// Behaviour is how it works at the start.
	Behaviour Behaviour
	// Seed selects which operations fail.
	Seed uint64
	// Now is the clock; nil means the real one.
	Now func() time.Time
	// StateFile keeps the operations over restarts; empty means that a restart forgets them.
	StateFile string
}

// Updater is a port.Updater. It is safe for concurrent use.
type Updater struct {
	updaters.Coverer
	updaters.Ready

	options Options
	claims  []cover.Pointer
	version bool
	journal *journal

	mu        sync.Mutex
	behaviour Behaviour
	machines  map[string]*machineState
	decisions int
}

var _ port.Updater = &Updater{}

// machineState is what is known about one machine. Its lock is held during an operation's step, effects included, so that
// two requests about a machine never work at the same time.
type machineState struct {
	mu         sync.Mutex
	operations map[string]*operation
	asked      map[string]int
	// applied is the digest of what was last applied besides the version.
	applied string
}

// New returns an Updater, with the operations that its state file holds.
func New(o Options) (*Updater, error) {
	if o.Nodes == nil || o.NodeName == nil {
		return nil, errors.New("creating the simulated updater: it needs Nodes and NodeName")
	}
	if err := o.Behaviour.check(); err != nil {
		return nil, fmt.Errorf("creating the simulated updater: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	claims := sortedClaims(o.Claims)
	if len(claims) == 0 {
		claims = []cover.Pointer{VersionClaim}
	}
	u := &Updater{options: o, claims: claims, behaviour: o.Behaviour, machines: map[string]*machineState{}}
	u.Coverer = u.cover
	for _, claim := range claims {
		if _, err := updaters.Fields(claim.Path, cover.Machine); err != nil {
			return nil, fmt.Errorf("creating the simulated updater: the claim of %s %s: %w", claim.Part, claim.Path, err)
		}
		u.version = u.version || claim == VersionClaim
	}
	journal, operations, err := openJournal(o.StateFile)
	if err != nil {
		return nil, fmt.Errorf("creating the simulated updater: %w", err)
	}
	u.journal = journal
	for _, known := range operations {
		machine := u.machine(known.Machine)
		machine.operations[known.ID] = &known
		if known.Completed {
			machine.applied = known.Digest
		}
	}
	return u, nil
}

// Close closes the state file. The Updater must not be used afterwards.
func (u *Updater) Close() error { return u.journal.close() }

// Check implements port.Updater.
func (u *Updater) Check(ctx context.Context) error { return ctx.Err() }

// SetBehaviour changes how the updater works from the next request on, from the JSON of a Behaviour: what it does not mention
// stays as it is.
func (u *Updater) SetBehaviour(raw json.RawMessage) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	after, err := DecodeBehaviour(u.behaviour, raw)
	if err != nil {
		return err
	}
	u.behaviour = after
	return nil
}

func (u *Updater) behaves() Behaviour {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.behaviour
}

// machine returns the state of a machine, made if need be.
func (u *Updater) machine(name string) *machineState {
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.machines[name]
	if state == nil {
		state = &machineState{operations: map[string]*operation{}, asked: map[string]int{}}
		u.machines[name] = state
	}
	return state
}

func (u *Updater) cover(ctx context.Context, scope cover.Scope, current, desired cover.Objects) (cover.Patches, error) {
	behaviour := u.behaves()
	u.mu.Lock()
	u.decisions++
	u.mu.Unlock()
	if behaviour.Mode == Hang {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return cover.Patches{}, err
	}
	if behaviour.Mode == WrongAnswer {
		return wrongPatches(scope), nil
	}
	return updaters.Patches(u.claims, scope, current, desired)
}

// wrongPatches set the version to one that nobody desires.
func wrongPatches(scope cover.Scope) cover.Patches {
	data := []byte(`{"spec":{"version":"v0.0.1-wrong"}}`)
	if scope == cover.MachineSet {
		data = []byte(`{"spec":{"template":{"spec":{"version":"v0.0.1-wrong"}}}}`)
	}
	return cover.Patches{Machine: cover.Patch{Type: cover.JSONMergePatch, Data: data}}
}
