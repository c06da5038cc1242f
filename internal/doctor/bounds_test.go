package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBounds: an object beyond its CRD is named with the limit. The cluster's machines are not affected.
func TestBounds(t *testing.T) {
	t.Parallel()
	beyond := []Beyond{{Subject: "UpdatePolicy keep", Problem: "spec.targets: Too many" + strings.Repeat("x", 1000)}}
	unusable := func(kind string) []Beyond {
		return []Beyond{{Subject: kind + " keep", Problem: strings.Repeat("x", 1000), Unusable: true}}
	}
	for name, test := range map[string]struct {
		facts Facts
		want  Severity
		fix   string
		// message is in the message.
		message string
	}{
		"none":           {want: OK},
		"none, live":     {facts: Facts{Live: true}, want: OK},
		"from manifests": {facts: Facts{Beyond: beyond}, want: Error, fix: "the API server refuses it"},
		"stored":         {facts: Facts{Live: true, Beyond: beyond}, want: Warning, fix: "before `clusterctl move`"},
		"policy": {
			facts: Facts{Live: true, Beyond: unusable("UpdatePolicy")}, want: Error, fix: "correct the object",
			message: "no Machine of a group that it may select is created or deleted, also for scaling and remediation",
		},
		"gate": {
			facts: Facts{Live: true, Beyond: unusable("UpgradeGate")}, want: Error, fix: "correct the object",
			message: "it holds each Cluster that it may select",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			into := &findings{id: CheckBounds}
			checkBounds(test.facts, nil, into)
			if len(into.list) != 1 || into.list[0].Severity != test.want || !strings.Contains(into.list[0].Fix, test.fix) ||
				!strings.Contains(into.list[0].Message, test.message) || len(into.list[0].Message) > 700 || strings.Contains(into.list[0].Message, "exceeds") {
				t.Errorf("findings are %+v, want %s with %q", into.list, test.want, test.fix)
			}
			if diff := cmp.Diff([]string(nil), concerning(group{}, into.list, test.want)); diff != "" {
				t.Errorf("a group is affected:\n%s", diff)
			}
		})
	}
}
