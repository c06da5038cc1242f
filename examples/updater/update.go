package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// operationID is the annotation by which Windlass names an attempt. Cluster API alone sets none.
const operationID = "windlass.dev/operation-id"

// retryAfterSeconds is when to ask again how an update goes on.
const retryAfterSeconds = 2

// updater updates machines, each by a command, and remembers in files which version a machine was brought to.
type updater struct {
	// work ends commands when the process ends. A request's own context must not: it ends with the request.
	work     context.Context //nolint:containedctx // It is the process', not a request's.
	hosts    map[string]string
	stateDir string
	command  string

	mu sync.Mutex
	// jobs are the last jobs by machine.
	jobs map[string]*job
}

// job is one run of the command.
type job struct {
	version, operation string
	// done is set when it has ended, err if it failed.
	done bool
	err  error
}

// updateMachine starts to update a machine, or says how that goes on. It never waits for the work.
func (u *updater) updateMachine(_ context.Context, request *runtimehooksv1.UpdateMachineRequest, response *runtimehooksv1.UpdateMachineResponse) {
	m := &request.Desired.Machine
	working, err := u.advance(m.Namespace+"/"+m.Name, m.Spec.Version, m.Annotations[operationID])
	answer(response, err)
	if working {
		response.SetMessage("updating to " + m.Spec.Version)
		response.SetRetryAfterSeconds(retryAfterSeconds)
	}
}

// advance reports whether the machine is being worked on. Without an error it is at the version otherwise.
func (u *updater) advance(machine, version, operation string) (working bool, err error) {
	host, known := u.hosts[machine]
	if !known {
		return false, fmt.Errorf("the Machine %s is not in the inventory", machine)
	}
	if version == "" {
		return false, fmt.Errorf("the Machine %s has no spec.version", machine)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	j := u.jobs[machine]
	if j != nil && !j.done {
		// One at a time, another version's job too.
		return true, nil
	}
	if done, err := u.readDone(machine); err != nil || done == version {
		return false, err
	}
	// A failed attempt stays failed: who wants another one asks with another operation id. Without ids, each request is one.
	if j != nil && j.version == version && j.operation == operation && operation != "" {
		return false, j.err
	}
	started := &job{version: version, operation: operation}
	u.jobs[machine] = started
	go u.runJob(started, machine, host)
	return true, nil
}

// runJob runs the command and records that it succeeded, before anybody is told so. A process that is killed in between
// runs it again: the command must be able to find its work done.
func (u *updater) runJob(j *job, machine, host string) {
	//nolint:gosec // The command is the user's, the host is from the inventory, and the version from the Machine.
	output, err := exec.CommandContext(u.work, u.command, host, j.version).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("running %s: %w: %s", u.command, err, lastLine(output))
	} else {
		err = u.writeDone(machine, j.version)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	j.done, j.err = true, err
}

// lastLine bounds what a condition has to show.
func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

func (u *updater) doneFile(machine string) string {
	return filepath.Join(u.stateDir, strings.ReplaceAll(machine, "/", "_")+".json")
}

// readDone gives the version that a machine was last brought to; empty if it never was.
func (u *updater) readDone(machine string) (version string, err error) {
	content, err := os.ReadFile(u.doneFile(machine))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading what was done: %w", err)
	}
	if err := json.Unmarshal(content, &version); err != nil {
		return "", fmt.Errorf("reading what was done: %s: %w", u.doneFile(machine), err)
	}
	return version, nil
}

// writeDone writes beside and renames, so that the file is whole whenever the process is killed.
func (u *updater) writeDone(machine, version string) error {
	content, err := json.Marshal(version)
	if err != nil {
		return fmt.Errorf("writing what was done: %w", err)
	}
	beside, err := os.CreateTemp(u.stateDir, ".new-*")
	if err != nil {
		return fmt.Errorf("writing what was done: %w", err)
	}
	defer func() { _ = os.Remove(beside.Name()) }()
	_, err = beside.Write(content)
	if err = errors.Join(err, beside.Sync(), beside.Close()); err != nil {
		return fmt.Errorf("writing what was done: %w", err)
	}
	if err := os.Rename(beside.Name(), u.doneFile(machine)); err != nil {
		return fmt.Errorf("writing what was done: %w", err)
	}
	return nil
}
