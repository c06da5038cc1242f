// Package history records every version of the objects of Clusters, as watches show them. The narration of
// the demo and the invariants of the end-to-end tests read the same record.
package history
