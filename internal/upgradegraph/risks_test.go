package upgradegraph_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestHazard plans with graphs that warn of known risks, block them, and accept some.
func TestHazard(t *testing.T) {
	t.Parallel()
	accept := func(ids ...string) (accepted []v1alpha1.AcceptedRisk) {
		for _, id := range ids {
			accepted = append(accepted, v1alpha1.AcceptedRisk{ID: id, Reason: "looked at"})
		}
		return accepted
	}
	const zombies, learners = "etcd-36-zombie-members", "etcd-36-too-many-learners"
	for name, tt := range map[string]struct {
		versions, from, to string
		known              v1alpha1.KnownRisks
		facts              risks.Facts
		want, err          string
	}{
		"by default": {versions: "v1.33.7 v1.34.1", from: "v1.33.7", to: "v1.34.1", want: "v1.34.1"},
		"a warning": {
			versions: "v1.33.7 v1.34.1", from: "v1.33.7", to: "v1.34.1",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksWarn}, want: "v1.34.1",
		},
		"kubeadm never brings the floor": {
			versions: "v1.33.13 v1.34.5", from: "v1.33.1", to: "v1.34.5",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock},
			err:   "the upgrade graph blocks known risks: etcd-36-zombie-members: Members that",
		},
		"accepted": {
			versions: "v1.33.13 v1.34.5", from: "v1.33.1", to: "v1.34.5",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock, Accepted: accept(zombies, learners)},
			want:  "v1.34.5",
		},
		"another accepted": {
			versions: "v1.33.13 v1.34.5", from: "v1.33.13", to: "v1.34.5",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock, Accepted: accept(learners)},
			err:   "add its id to spec.knownRisks.accepted of the graph",
		},
		"K3s goes by way of the safe build": {
			versions: "v1.33.7+k3s1 v1.33.7+k3s3 v1.34.3+k3s1", from: "v1.33.7+k3s1", to: "v1.34.3+k3s1",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock}, want: "v1.33.7+k3s3 v1.34.3+k3s1",
		},
		"K3s without the safe build": {
			versions: "v1.33.7+k3s1 v1.34.3+k3s1", from: "v1.33.7+k3s1", to: "v1.34.3+k3s1",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock},
			err:   "v1.33.7+k3s1 -> v1.34.3+k3s1: the upgrade graph blocks known risks: etcd-36-zombie-members",
		},
		"a broken release on the way": {
			versions: "v1.35.4 v1.36.2 v1.36.3 v1.37.1", from: "v1.35.4", to: "v1.37.1",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock}, want: "v1.36.3 v1.37.1",
		},
		"warnings never block": {
			versions: "v1.34.5 v1.35.4", from: "v1.34.5", to: "v1.35.4",
			known: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock}, want: "v1.35.4",
		},
	} {
		spec := v1alpha1.UpgradeGraphSpec{KnownRisks: tt.known}
		for v := range strings.FieldsSeq(tt.versions) {
			spec.Versions = append(spec.Versions, v1alpha1.Version(v))
		}
		graph, err := upgradegraph.Parse(spec)
		if err != nil {
			t.Fatal(name, err)
		}
		graph.Hazard = upgradegraph.Hazard(spec.KnownRisks, risks.BuiltIn(), tt.facts)
		p, err := plan.Compute(plan.Request{
			Inventory: plan.Inventory{ControlPlane: version.MustParse(tt.from)},
			Target:    version.MustParse(tt.to), Source: graph,
		})
		var got []string
		for _, v := range p.ControlPlane {
			got = append(got, v.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: the plan is %s, want %s (%v)", name, got, tt.want, err)
		}
		fault, _ := errors.AsType[*plan.Error](err)
		if tt.err != "" && (fault == nil || fault.Rule != plan.RuleKnownRisk || !strings.Contains(fault.Error(), tt.err)) {
			t.Errorf("%s: the error is %v, want %q", name, err, tt.err)
		}
	}
}

// TestParseKnownRisks refuses what the API server refuses, too.
func TestParseKnownRisks(t *testing.T) {
	t.Parallel()
	for want, known := range map[string]v1alpha1.KnownRisks{
		"spec.knownRisks.action":             {Action: "Panic"},
		"spec.knownRisks.accepted[0].id":     {Accepted: []v1alpha1.AcceptedRisk{{Reason: "r"}}},
		"spec.knownRisks.accepted[0].reason": {Accepted: []v1alpha1.AcceptedRisk{{ID: "i"}}},
	} {
		_, err := upgradegraph.Parse(v1alpha1.UpgradeGraphSpec{Versions: []v1alpha1.Version{"v1.33.1"}, KnownRisks: known})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
