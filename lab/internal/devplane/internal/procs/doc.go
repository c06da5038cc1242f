// Package procs starts processes that do not outlive the process that starts them.
//
// On Linux the kernel kills a child when its parent dies; elsewhere an orderly end of the parent is needed.
package procs
