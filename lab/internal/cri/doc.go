// Package cri is a container runtime for test hosts: it serves version 1 of the Container Runtime
// Interface and runs containers as plain processes of the host.
//
// A pod has the network, the IP address, the host name and the root of its host. A container has mount
// and PID namespaces of its own. Its image is a folder with programs, which come first in PATH; the
// other files are the host's. The paths at which its volumes are mounted appear on the host's disk as
// empty files and folders.
//
// The runtime refuses what would silently behave otherwise: other modes of PID namespaces, user
// namespaces, devices, sysctls, images as volumes, mounts that propagate to the host, users by name,
// terminals of a container's main program, and Attach. It ignores what only restricts or measures a
// container: capabilities, seccomp, AppArmor, SELinux, masked paths, and limits of resources. It
// ignores DNS settings, port mappings, and the host name of a pod.
//
// Sandboxes and containers are recorded below State, which must be lost with the power. The runtime may
// be killed at any time: the next one finds the containers, and what they logged and returned
// meanwhile. Pulled images are recorded below Store, which should outlive the power.
package cri
