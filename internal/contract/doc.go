// Package contract tells which API versions of a provider's kind keep Cluster API's contract with providers, and which version of the contract,
// as the labels of its CustomResourceDefinition say it: cluster.x-k8s.io/v1beta2: "v1beta1_v1beta2".
// https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview
//
// It also tells whether objects of a kind can be watched, see [Watchable], and which right is missing if not, see [RightsError].
//
// [FetchOwner] finds the owner of a Machine's group, also of a Machine that Cluster API's label is gone from.
package contract
