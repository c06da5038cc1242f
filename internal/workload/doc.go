// Package workload reads and changes nodes of workload clusters: it implements port.Nodes. Facts tells what gates look at there.
//
// It connects with the kubeconfig that Cluster API keeps for every cluster, when it is first asked about a node there, and
// reads live. It has no caches of objects, no watches and no health probes (Cluster API's clustercache has all three, for
// every Cluster there is, updated or not): what is asked here is one node now and then, and the pods of a node that is drained.
package workload
