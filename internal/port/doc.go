// Package port holds the interfaces between what decides and the world: updaters and nodes. Every port has one suite of
// contract tests, run against each implementation and against the fake.
package port
