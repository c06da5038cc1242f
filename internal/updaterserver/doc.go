// Package updaterserver serves any port.Updater as a runtime extension of Cluster API: Discovery, CanUpdateMachine,
// CanUpdateMachineSet and UpdateMachine over TLS. For tests it also misbehaves on request.
package updaterserver
