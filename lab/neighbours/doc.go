// Package neighbours pins programs that users run beside Windlass, at the versions that its tests run:
// cert-manager, by a command of its own, and the Cluster API Operator, as a tool.
package neighbours
