// Package porttest holds, for the ports, implementations in memory and requests for tests, and the
// contract tests of port.Host.
package porttest
