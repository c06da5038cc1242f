// Package annotated decides about upgrades in place that an annotation asks for: of one machine, and of the machines of a group. What happens to the
// machine itself (drain, updater, verification, soak, attempts) is decided by package inplace; this package decides when that begins, what is recorded
// of it, and when it is given up.
package annotated
