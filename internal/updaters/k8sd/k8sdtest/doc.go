// Package k8sdtest is a k8sd to test against: the part of its API that refreshes the snap of Canonical Kubernetes, over real TLS on a loopback
// address, for many machines at once. It fails, hangs, restarts and forgets on request.
package k8sdtest
