// Package recorder is a client of a cluster that writes and reads until it is stopped, and keeps a
// journal in a file outside the cluster. It asks each member of etcd for what the journal contains.
package recorder
