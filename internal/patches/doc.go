// Package patches sends fewer requests for reconcilers that write with Cluster API's patch helper.
//
// The helper writes one reconcile's changes of an object with up to three patches: the conditions,
// then metadata and spec, then the rest of status. The first and the last are about the same
// subresource. [NewClient] sends both with the first one, which the API server refuses if the
// object has changed since it was read, and omits a patch that repeats what the API server has returned in
// the same reconcile. It also returns the object that a reconcile has written where the cache is
// older: neither the helper's next patch nor the next reconcile's causes a conflict.
//
// The order of requests, and what is stored at the end, stay the same.
package patches
