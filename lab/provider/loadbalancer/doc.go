// Package loadbalancer forwards TCP connections to the API servers of a control plane.
//
// It asks each API server for /readyz. New connections go to those that are ready, in turn. An API server that answers, but is
// not ready, keeps its connections: it may be about to end, and then ends them itself. One that is lost, because nothing
// accepts connections or answers at its address, has its connections reset: a host without power closes none, and its
// clients would wait for their timeouts.
package loadbalancer
