// Package lease is a lock for leader election that hands over without a pause. A replica that waits watches
// the Lease, so it takes over as soon as the Lease is released. A leader that could not renew the Lease in
// time stops acting before another replica can lead.
package lease
