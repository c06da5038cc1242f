// Package devplane runs a real Cluster API management cluster on one machine, without containers: kube-apiserver with embedded
// etcd, the stock Cluster API managers, and the in-memory infrastructure provider, each an ordinary process.
//
// [Build] makes the binaries and collects the manifests. [Start] brings a plane up and returns a handle; [Connect] returns a
// handle to one that runs already. A plane belongs to a supervisor process, which starts the parts in order, watches them,
// and answers the handle over a socket in the state directory.
//
// # Isolation
//
// Some parts listen on all interfaces and cannot be told otherwise. On Linux the supervisor and all parts therefore run in a
// private network namespace with nothing but loopback (and in a PID namespace, so that the supervisor's death ends them all).
// One listener, made in the user's namespace and handed to the supervisor, leads to the API server; [Plane.DialContext]
// leads to anything else inside. See [Isolation] for what happens where namespaces are not to be had.
//
// # Lifetime
//
// An attached plane (the default) ends with the process that started it, however that process ends. A detached one
// ([Config.Detached]) lives until [Plane.Stop].
package devplane
