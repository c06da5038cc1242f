package preflight_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
)

// devices are the facts of a cluster in which devices were seen.
func devices(seen string) risks.Facts {
	answers := make(map[risks.ClusterFact]risks.Answer)
	answers[risks.HasDevices] = risks.Answer{Known: true, Holds: true, Seen: seen}
	return risks.Facts{Cluster: answers}
}

func TestCheckRisks(t *testing.T) {
	t.Parallel()
	const zombies = "etcd-36-zombie-members"
	step := func(from, to string) risks.Step {
		return risks.Step{From: version.MustParse(from), To: version.MustParse(to)}
	}
	for name, tt := range map[string]struct {
		checked preflight.Risks
		outcome clustercheck.Outcome
		// ids are the subjects.
		ids, message string
	}{
		"none": {
			checked: preflight.Risks{Steps: []risks.Step{step("v1.27.1", "v1.27.2")}},
			outcome: clustercheck.Passed, message: "none of the known risks of",
		},
		"no plan": {
			checked: preflight.Risks{Steps: []risks.Step{step("v1.27.1", "v1.27.2")}, RouteUnknown: "no class"},
			outcome: clustercheck.Passed, message: "because those between are not known: no class",
		},
		"on the second step": {
			checked: preflight.Risks{Steps: []risks.Step{step("v1.32.5", "v1.33.13"), step("v1.33.13", "v1.34.13")}},
			outcome: clustercheck.Warned, ids: zombies,
			message: "CP v1.33.13 -> v1.34.13 (etcd v3.5.24 -> v3.6.5): Members that",
		},
		"blocked": {
			checked: preflight.Risks{
				Steps:  []risks.Step{step("v1.33.13", "v1.34.13")},
				Blocks: func(r *risks.Risk) bool { return r.ID == zombies },
			},
			outcome: clustercheck.Failed, ids: zombies, message: "https://etcd.io/",
		},
		"a condition that nothing confirms": {
			checked: preflight.Risks{Steps: []risks.Step{step("v1.34.6", "v1.35.4")}},
			outcome: clustercheck.Passed,
			message: "cannot be seen here: dra-storage-v1 (clusters with ResourceClaims or DeviceClasses); " +
				"kubelet-135-cgroup-v1 (machines with cgroup v1",
		},
		"beside one that is confirmed": {
			checked: preflight.Risks{Steps: []risks.Step{step("v1.33.13", "v1.35.4")}},
			outcome: clustercheck.Passed, message: "dra-storage-v1 (",
		},
		"a fact that holds": {
			checked: preflight.Risks{
				Steps: []risks.Step{step("v1.34.6", "v1.35.4")},
				Facts: devices("it has deviceclasses"),
			},
			outcome: clustercheck.Warned, ids: "dra-storage-v1",
			message: "It concerns this cluster: it has deviceclasses (https://",
		},
		"a machine that shows it": {
			checked: preflight.Risks{
				Steps: []risks.Step{step("v1.35.4", "v1.36.3")},
				Facts: risks.Facts{Hosts: []risks.Host{{Runtime: "containerd://1.7.27"}}},
			},
			outcome: clustercheck.Warned, ids: "kubelet-138-containerd-1", message: "Concerns machines with",
		},
		"accepted": {
			checked: preflight.Risks{
				Steps: []risks.Step{step("v1.33.13", "v1.34.13")}, Accepts: func(string) bool { return true },
			},
			outcome: clustercheck.Passed, message: "accepted",
		},
	} {
		tt.checked.Known = risks.BuiltIn()
		found := preflight.CheckRisks(tt.checked)
		var said *clustercheck.Finding
		for i, f := range found {
			if f.Subject == tt.ids {
				said = &found[i]
			}
		}
		if said == nil || said.Outcome != tt.outcome || !strings.Contains(said.Message, tt.message) {
			t.Errorf("%s: %+v, want %s %q", name, said, tt.outcome, tt.message)
		}
	}
}
