// Package managercmd is windlass manager: Cluster API's core manager with Windlass' engine.
package managercmd
