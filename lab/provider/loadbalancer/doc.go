// Package loadbalancer forwards TCP connections to the API servers of a control plane.
//
// It asks each API server for /readyz. New connections go to those that are ready, in turn. An API
// server that answers, but is not ready, keeps its connections for a few seconds: it may be about
// to end, and then ends them itself. One that is lost has its connections reset, so that its
// clients connect to another one and do not wait for their timeouts. An API server is lost when
// nothing accepts connections at its address, as on a host without power, or when it has been slow
// or not ready for longer, as without its etcd, while another one is ready.
package loadbalancer
