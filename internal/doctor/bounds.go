package doctor

import "github.com/windlass-dev/windlass/internal/text"

// maxBeyond bounds the problem of one object, in bytes.
const maxBeyond = 400

// checkBounds names objects that exceed the CRDs of this release. A management cluster keeps those that
// it stored before, and one that did not store them refuses them.
func checkBounds(f Facts, _ []group, into *findings) {
	severity := Error
	fix := "change the object: the API server refuses it"
	if f.Live {
		severity = Warning
		fix = "change the object before `clusterctl move`, a restore from a backup, or a change of this field: " +
			"an API server that has not stored it refuses it"
	}
	for _, b := range f.Beyond {
		into.add(severity, b.Subject, fix, "it exceeds the CRD of this release: %s", text.Bound(b.Problem, maxBeyond))
	}
	if len(f.Beyond) == 0 {
		into.ok("objects of Windlass", "they keep the limits of the CRDs of this release")
	}
}
