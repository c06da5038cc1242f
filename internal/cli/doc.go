// Package cli contains what the commands of windlass and windlass-lab share: how a program ends and its
// exit codes, the flags and arguments that several commands have and how the shell completes them, and
// how failures and lines are printed.
//
// Each verb of windlass is a package below this one with a function New. The packages are named after
// the verb and end in cmd (plancmd, statuscmd), because internal/doctor, internal/status, pkg/plan and
// others have the verbs as their names, and no two packages of the product have the same name.
package cli
