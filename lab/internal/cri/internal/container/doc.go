// Package container runs one container as a plain process of the host.
//
// A container has mount and PID namespaces of its own, and the root, the network and the devices of
// the host. Its shim is a process that starts it, writes its log, and records its exit. The shim does
// not need the process that started it. If the shim is killed, the kernel kills the container.
//
// A folder contains all state of a container:
//
//	spec.json     what to run; the container exists
//	lock          locked by the shim while it lives; Start was called
//	started.json  the processes; the program runs
//	exited.json   the exit status; the container has ended
//	shim.log      what the shim reports about itself
//
// The folder must be on a file system that is lost with the power, because process numbers are.
package container
