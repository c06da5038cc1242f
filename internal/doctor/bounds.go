package doctor

import (
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// maxBeyond bounds the problem of one object, in bytes.
const maxBeyond = 400

// checkBounds names objects that the CRDs of this release refuse. A management cluster keeps those that
// it stored before, and one that did not store them refuses them.
func checkBounds(f Facts, _ []group, into *findings) {
	for _, b := range f.Beyond {
		fix := "change the object: the API server refuses it"
		if f.Live {
			fix = "change the object, at the latest before `clusterctl move` or a restore from a backup: " +
				"an API server that has not stored it refuses it"
		}
		if f.Live && b.Unusable {
			fix = "correct the object, such as by `kubectl edit`: select by one label that the objects share, or split it"
		}
		into.add(b.severity(f.Live), b.Subject, fix, "the CRD of this release refuses it%s: %s",
			b.effect(f.Live), text.Bound(b.Problem, maxBeyond))
	}
	if len(f.Beyond) == 0 {
		into.ok("objects of Windlass", "they keep the limits of the CRDs of this release")
	}
}

// severity is Warning for an object that was stored before and can still be used.
func (b Beyond) severity(live bool) Severity {
	if live && !b.Unusable {
		return Warning
	}
	return Error
}

// effect says what an object that cannot be used stops. A selector that cannot be used may select
// anything.
func (b Beyond) effect(live bool) string {
	if !live || !b.Unusable {
		return ""
	}
	switch kind, _, _ := strings.Cut(b.Subject, " "); kind {
	case "UpdatePolicy":
		return ", and Windlass cannot use it: if a policy of its namespace has fallback None, no Machine of a group that it " +
			"may select is created or deleted, also for scaling and remediation"
	case "UpgradeGate":
		return ", and Windlass cannot use it: it holds each Cluster that it may select"
	default:
		return ", and Windlass cannot use it"
	}
}
