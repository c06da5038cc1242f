// Package k8sdtest is a k8sd to test against: the part of its API that refreshes the snap of Canonical Kubernetes, over
// real TLS on a loopback address, for many machines at once. It fails, hangs, restarts and forgets on request.
//
// It answers as github.com/canonical/k8sd at commit 1417866 (main, August 2026) does over snapd at 6d35def: a failed
// snap command is 500 with the command's exit status and nothing of what it printed, 10 for a conflict with another
// change; a change that snapd does not know is 200 with an empty status; a wrong token is 401; a request to a daemon
// that starts or stops is 503. A real k8sd was never asked.
package k8sdtest
