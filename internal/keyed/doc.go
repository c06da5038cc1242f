// Package keyed holds what many callers share by key: locks, values that are in use, what was last
// said, and what is remembered for a while. All of it is memory of one process, and may be lost. It
// has no clock: the time is a parameter.
package keyed
