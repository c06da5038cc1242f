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
	for name, test := range map[string]struct {
		facts Facts
		want  Severity
		fix   string
	}{
		"none":           {want: OK},
		"none, live":     {facts: Facts{Live: true}, want: OK},
		"from manifests": {facts: Facts{Beyond: beyond}, want: Error, fix: "the API server refuses it"},
		"stored":         {facts: Facts{Live: true, Beyond: beyond}, want: Warning, fix: "before `clusterctl move`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			into := &findings{id: CheckBounds}
			checkBounds(test.facts, nil, into)
			if len(into.list) != 1 || into.list[0].Severity != test.want || !strings.Contains(into.list[0].Fix, test.fix) || len(into.list[0].Message) > 500 {
				t.Errorf("findings are %+v, want %s with %q", into.list, test.want, test.fix)
			}
			if diff := cmp.Diff([]string(nil), concerning(group{}, into.list, test.want)); diff != "" {
				t.Errorf("a group is affected:\n%s", diff)
			}
		})
	}
}
