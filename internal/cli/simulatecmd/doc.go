// Package simulatecmd is windlass simulate.
package simulatecmd
