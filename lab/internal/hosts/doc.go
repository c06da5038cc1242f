// Package hosts gives tests real Linux hosts on one machine.
//
// A host is a process in network, mount, PID, UTS and IPC namespaces of its own. Its root is an overlay: below it the machine's
// own root, above it a tmpfs of a given size, so that a disk can be full. PID 1 is a small init that reads real unit files and
// does what systemctl, systemd-run and journalctl ask. Debian's sshd listens in the host's network namespace only. Killing PID 1
// is the power cut: everything in the host dies at once, and the disk stays.
//
// Nothing outlives a test: what a host consists of belongs to one process, the machine, which ends when the test's process
// ends, however it ends. Hosts of one test and of several test binaries may be up side by side.
//
// On Debian it needs root, openssh-server, iproute2, util-linux and procps; sudo is used where it is there. Require says what is
// missing. The first test of a checkout builds the init.
//
// Users are root, ops (sudo without a password) and nosudo, each with a key of its own (Host.Key). sudo is Debian's where the
// machine has it, and otherwise a stand-in that knows NOPASSWD: ALL and sudo's refusal.
//
// What differs from a real host: a power cut loses nothing that was written, synced or not; control groups are not there, and
// a service's processes are told by their session and their INVOCATION_ID; a unit file is read once and then again only at
// daemon-reload, while systemd forgets idle units and reads them anew; dependencies between units are ignored; there is no DNS.
package hosts
