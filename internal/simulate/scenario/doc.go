// Package scenario is what people write to say what is simulated: a small YAML file of clusters, policies, durations, failures and gates. It is
// decoded strictly, checked as a whole, and translated into what package fleet runs.
//
// Everything here is pure: who reads a file, and from where, is the caller's choice. All functions are safe for concurrent use, and none panics,
// whatever the file holds.
package scenario
