// Package planinput reads what to plan from flags, manifests or a management cluster, and asks updaters how
// machines will be updated. The verbs plan, simulate and verify share it.
package planinput
