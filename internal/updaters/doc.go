// Package updaters contains what updaters share: the HTTPS client for remote updaters (one POST of
// JSON, bounded in time and size, verified, never redirected), and patches that bring chosen fields of a
// machine's objects to the desired values.
package updaters
