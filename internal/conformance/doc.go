// Package conformance tests a remote updater against the rules that Cluster API and Windlass have for one: a battery of
// points, each with the source of its rule.
package conformance
