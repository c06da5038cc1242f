// Package site is what an infrastructure provider of the lab rents from: hosts and load balancers on this machine, in a process
// of their own. The provider's process can be killed and finds them again; they end with the site's process, which is a process of the
// plane.
//
// A Server answers on a socket. Requests say how something must be, and can be repeated: a provider that does not
// know whether a request arrived sends it again. A request that has begun ends, also when its client has gone.
package site
