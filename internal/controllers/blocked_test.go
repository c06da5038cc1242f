package controllers

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recorder is a Swept that records its calls, and fails as a test says.
type recorder struct {
	calls []string
	fail  map[string]error
	// then is called at each Unblock.
	then func()
}

func (r *recorder) call(name string) error {
	r.calls = append(r.calls, name)
	return r.fail[name]
}

func (r *recorder) FindBlocked(_ context.Context, kinds []schema.GroupVersionKind) error {
	return r.call("find " + kinds[0].Kind)
}

func (r *recorder) Unblock(context.Context) error {
	if r.then != nil {
		r.then()
	}
	return r.call("unblock")
}

func (r *recorder) SweepMachines(context.Context) error { return r.call("machines") }

func updateSweeper(r *recorder) *UpdateSweeper {
	return &UpdateSweeper{Swept: r, Kinds: []schema.GroupVersionKind{{Kind: "MachineDeployment"}}}
}

// TestSweep looks for blocked objects until that has gone well once, and keeps one fault from hiding other work.
func TestSweep(t *testing.T) {
	t.Parallel()
	r := &recorder{fail: map[string]error{"find MachineDeployment": errors.New("down")}}
	s, found := updateSweeper(r), false
	if err := s.sweep(t.Context(), &found); err == nil || found {
		t.Errorf("found %v, error %v", found, err)
	}
	r.fail = map[string]error{"unblock": errors.New("conflict")}
	if err := s.sweep(t.Context(), &found); err == nil || !found {
		t.Errorf("found %v, error %v", found, err)
	}
	r.fail = nil
	if err := s.sweep(t.Context(), &found); err != nil {
		t.Error(err)
	}
	want := []string{"find MachineDeployment", "find MachineDeployment", "unblock", "machines", "unblock", "machines"}
	if diff := cmp.Diff(want, r.calls); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestStart sweeps at once, and ends with its context.
func TestStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	if err := updateSweeper(&recorder{then: cancel}).Start(ctx); err != nil {
		t.Error(err)
	}
}
