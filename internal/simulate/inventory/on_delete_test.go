package inventory_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
)

// onDelete is a Cluster whose first MachineDeployment has the strategy OnDelete.
func onDelete(t *testing.T, engine string, spec v1alpha1.UpdatePolicySpec) inventory.Cluster {
	t.Helper()
	c := driven(t, engine)
	c.Objects.MachineDeployments[0].Spec.Rollout.Strategy =
		clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.OnDeleteMachineDeploymentStrategyType,
		}
	into := &c.Policies[0].Spec
	into.MaxInFlight, into.Fallback, into.OnDelete = 3, spec.Fallback, spec.OnDelete
	return c
}

// TestOnDelete: a group with the strategy OnDelete that windlass manager updates in place is
// simulated as a group whose machines are kept, and whose maxUnavailable is maxInFlight.
func TestOnDelete(t *testing.T) {
	t.Parallel()
	type limits struct {
		Policy             string
		Surge, Unavailable int
		Guarded, Noted     bool
	}
	const replaces, updates = v1alpha1.FallbackRollingUpdate, v1alpha1.OnDeleteInPlace
	for name, tt := range map[string]struct {
		engine string
		spec   v1alpha1.UpdatePolicySpec
		want   limits
	}{
		"windlass manager": {
			v1alpha1.EngineManager, v1alpha1.UpdatePolicySpec{OnDelete: updates},
			limits{Policy: "keep", Unavailable: 3, Guarded: true},
		},
		"a fallback that replaces": {
			v1alpha1.EngineManager, v1alpha1.UpdatePolicySpec{Fallback: replaces, OnDelete: updates},
			limits{Policy: "keep/on-delete", Unavailable: 3, Guarded: true},
		},
		"it waits for a person": {
			v1alpha1.EngineManager, v1alpha1.UpdatePolicySpec{Fallback: replaces},
			limits{Policy: "keep", Surge: 1, Noted: true},
		},
		"stock": {
			"", v1alpha1.UpdatePolicySpec{Fallback: replaces, OnDelete: updates},
			limits{Policy: "keep", Surge: 1, Noted: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onDelete(t, tt.engine, tt.spec)
			read, err := inventory.FromObjects([]inventory.Cluster{c})
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Translate(read.File, scenario.Options{Sources: read.Sources})
			if err != nil {
				t.Fatal(err)
			}
			into := s.Config.Clusters[0].Pools[0]
			got := limits{
				Policy: into.Update.PolicyName, Surge: into.MaxSurge, Unavailable: into.MaxUnavailable,
				Guarded: into.Update.Guarded,
				Noted: slices.ContainsFunc(read.Notes, func(n string) bool {
					return strings.HasPrefix(n, "MachineDeployment prod-there of cluster prod has the strategy")
				}),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnDeleteNotCovered: windlass manager replaces no machine of such a group.
func TestOnDeleteNotCovered(t *testing.T) {
	t.Parallel()
	c := onDelete(t, v1alpha1.EngineManager, v1alpha1.UpdatePolicySpec{
		Fallback: v1alpha1.FallbackRollingUpdate, OnDelete: v1alpha1.OnDeleteInPlace,
	})
	c.Updates[1] = cover.Update{Outcome: cover.Replace, Message: "nobody covers it"}
	_, err := inventory.FromObjects([]inventory.Cluster{c})
	blocked, ok := errors.AsType[*inventory.BlockedError](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	want := []string{"MachineDeployment prod-there of cluster prod: blocked: nobody covers it"}
	if diff := cmp.Diff(want, blocked.Groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
