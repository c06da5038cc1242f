// Package remote is the updater that is reached over HTTPS and speaks Cluster API's own hooks for in-place updates:
// Discovery, CanUpdateMachine, CanUpdateMachineSet and UpdateMachine, version v1alpha1. An extension written for Cluster API
// works unchanged.
package remote
