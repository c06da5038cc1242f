// Package admit decides whether a Cluster may have the Kubernetes version that somebody asks for, and a ClusterClass the versions
// that it lists. It knows no objects: the webhooks parse them and put the answers into words of the API.
//
// The rules are those of the chained upgrades proposal and Cluster API's own webhooks, with one difference: a new target in the
// middle of an upgrade is allowed where a legal way leads to it from what the control plane has now, or is on its way to.
//
// Everything here is pure and safe for concurrent use. Inputs are never changed.
package admit
