// Package bounds says what an API server with the CRDs of this release would refuse of an object
// that another one has stored: before it is moved, restored or changed.
package bounds
