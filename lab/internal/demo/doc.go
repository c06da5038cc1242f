// Package demo upgrades a simulated cluster on a plane of stock Cluster API and compares the plan with what
// happened. A Scenario describes the cluster and its target, Run carries it out, and the operations that
// happened are computed from the changes of a history.History.
package demo
