// Package changereport puts the plan of an upgrade and what has happened beside each other, for a change
// ticket: while the upgrade runs, and after it. It knows only what the objects have recorded, and names
// what they have not.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe for
// concurrent use.
package changereport
