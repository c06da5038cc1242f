// Package gate decides whether a step of an upgrade may continue: whether every UpgradeGate at that
// step lets it pass.
//
// [Select] finds the gates at a step. Deciding takes two rounds, because facts about a workload cluster
// are expensive to read and useless while a person or the clock holds the step anyway: [Needs] returns
// the facts that are needed now, and [Decide] gives the verdict from them. An unknown fact holds the
// step. The Compute functions return the status that an UpgradeGate should have.
//
// Everything here is pure. Package gatehooks reads, asks and writes.
package gate
