// Package porttest holds, for every port, an implementation in memory for tests, and the contract tests that all
// implementations must pass.
package porttest
