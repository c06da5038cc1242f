package devplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// layout names what lies in a state directory.
type layout struct{ dir string }

func (l layout) lock() string             { return filepath.Join(l.dir, "windlass-dev.lock") }
func (l layout) record() string           { return filepath.Join(l.dir, "supervisor.json") }
func (l layout) config() string           { return filepath.Join(l.dir, "config.json") }
func (l layout) socket() string           { return filepath.Join(l.dir, socketName) }
func (l layout) kubeconfig() string       { return filepath.Join(l.dir, "kubeconfig") }
func (l layout) insideKubeconfig() string { return filepath.Join(l.dir, "kubeconfig.inside") }
func (l layout) apiServer() string        { return filepath.Join(l.dir, "apiserver") }
func (l layout) certs() string            { return filepath.Join(l.dir, "certs") }
func (l layout) ca() string               { return filepath.Join(l.certs(), "ca.crt") }
func (l layout) certDir(name string) string {
	return filepath.Join(l.certs(), name)
}
func (l layout) clientKubeconfig(name string) string {
	return filepath.Join(l.certDir(name), "kubeconfig")
}
func (l layout) logs() string { return filepath.Join(l.dir, "logs") }
func (l layout) log(name string) string {
	return filepath.Join(l.logs(), name+".log")
}
func (l layout) auditPolicy() string { return filepath.Join(l.certDir(APIServer), "audit-policy.yaml") }
func (l layout) auditLog() string    { return filepath.Join(l.logs(), "audit.log") }
func (l layout) temp() string        { return filepath.Join(l.dir, "tmp") }

// volatile lists everything but the lock, which outlives a cleaning.
func (l layout) volatile() []string {
	return []string{
		l.record(), l.config(), l.socket(), l.kubeconfig(), l.insideKubeconfig(), l.apiServer(), l.certs(), l.logs(), l.temp(),
	}
}

const (
	socketName     = "control.sock"
	supervisorName = "supervisor"
)

// processID tells a process from a later one that got the same pid.
type processID struct {
	PID int `json:"pid"`
	// Start identifies the moment of the process's start; its form depends on the system.
	Start string `json:"start"`
}

// record is what a supervisor writes about itself.
type record struct {
	Supervisor processID `json:"supervisor"`
	// Children are the processes that would outlive a supervisor that crashes: none where the kernel ends them with it.
	Children []processID `json:"children,omitempty"`
}

// alive reports whether the process that id was made from still runs.
func (id processID) alive() bool {
	if id.PID <= 0 {
		return false
	}
	start, err := processStart(id.PID)
	return err == nil && start == id.Start
}

// readRecord returns the zero record when there is none. It trusts nobody else's: a record names processes to be ended.
func readRecord(l layout) (record, error) {
	if err := checkFile(l.record(), os.Geteuid()); errors.Is(err, os.ErrNotExist) {
		return record{}, nil
	} else if err != nil {
		return record{}, err
	}
	data, err := os.ReadFile(l.record())
	if err != nil {
		return record{}, fmt.Errorf("reading the supervisor's record: %w", err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("reading the supervisor's record %s: %w", l.record(), err)
	}
	return r, nil
}

// writeJSON replaces a file at once, so that no reader sees half of it.
func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return writeFile(path, data)
}

func writeFile(path string, data []byte) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// prepareStateDir makes the directory, or accepts one that a plane has used. Anything else is somebody's and stays untouched.
func prepareStateDir(l layout) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("reading the state directory: %w", err)
	}
	if _, err := os.Lstat(l.lock()); err != nil && len(entries) > 0 {
		return fmt.Errorf(
			"the state directory %s has files of others, such as %s. Fix: remove them, or choose another "+
				"state directory", l.dir, entries[0].Name(),
		)
	}
	return secureState(l, os.Geteuid())
}

// secureState makes sure that nobody but user can have written, or can reach, what is in a state directory: keys with full rights, a
// socket that runs programs, a record of processes to end.
func secureState(l layout, user int) error {
	info, err := os.Stat(l.dir)
	if err != nil {
		return fmt.Errorf("reading the state directory: %w", err)
	}
	if !ownedBy(info, user) {
		return fmt.Errorf("the state directory %s belongs to another user: choose one of your own", l.dir)
	}
	if info.Mode().Perm()&othersMode != 0 {
		if err := os.Chmod(l.dir, 0o700); err != nil { //nolint:gosec // G302: a directory needs the x
			return fmt.Errorf("protecting the state directory: %w", err)
		}
	}
	// Before it was protected, others may have put something there.
	for _, path := range []string{l.lock(), l.record()} {
		if err := checkFile(path, user); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// othersMode are the permissions of everybody but the owner.
const othersMode = 0o077

// checkFile refuses what is not a file of the user's, links included.
func checkFile(path string, user int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("reading the plane's state: %w", err)
	}
	if !info.Mode().IsRegular() || !ownedBy(info, user) {
		return fmt.Errorf("%s is not a file of yours: it is not trusted; remove it, or choose another state directory", path)
	}
	return nil
}

func ownedBy(info os.FileInfo, user int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == user
}

// awaitLock is acquireLock after a supervisor that was killed: its main thread may have ended while
// another one still holds the lock. It waits for that, for killGrace at most.
func awaitLock(l layout) (file *os.File, ok bool, err error) {
	for deadline := time.Now().Add(killGrace); ; time.Sleep(pollPeriod) {
		file, ok, err := acquireLock(l)
		if ok || err != nil || time.Now().After(deadline) {
			return file, ok, err
		}
		// A supervisor that is still starting has no record, or none that can be read.
		r, _ := readRecord(l)
		if r.Supervisor.PID == 0 || r.Supervisor.alive() {
			return nil, false, nil
		}
	}
}

// cleanStale removes what a plane has left, processes first. The caller holds the lock, so no supervisor is alive, unless
// it was killed a moment ago.
func cleanStale(l layout) error {
	r, err := readRecord(l)
	if err != nil {
		// Half a record is no reason not to start; there is nobody in it that could be trusted to be ours.
		r = record{}
	}
	for _, id := range append([]processID{r.Supervisor}, r.Children...) {
		if !id.alive() {
			continue
		}
		if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d, left by a plane that crashed: %w", id.PID, err)
		}
	}
	for _, path := range l.volatile() {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing what a plane has left: %w", err)
		}
	}
	return nil
}

// RemoveState removes the state directory of a plane that does not run, and reports a [RunningError] when one does. A
// directory that does not exist is no error; files that are not the plane's stay, and the directory with them.
func RemoveState(stateDir string) error {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return fmt.Errorf("making %q absolute: %w", stateDir, err)
	}
	l := layout{dir: dir}
	if _, err := os.Stat(l.lock()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := secureState(l, os.Geteuid()); err != nil {
		return err
	}
	lock, ok, err := awaitLock(l)
	if err != nil {
		return err
	}
	if !ok {
		return runningError(l)
	}
	defer func() { _ = lock.Close() }() // ends the lock; the file is gone by then
	if err := cleanStale(l); err != nil {
		return err
	}
	if err := os.Remove(l.lock()); err != nil {
		return fmt.Errorf("removing the lock: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return err
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("removing the state directory: %w", err)
	}
	return nil
}

func runningError(l layout) error {
	// A supervisor that is still starting has no record yet; the error is right without the pid.
	r, _ := readRecord(l)
	return &RunningError{StateDir: l.dir, PID: r.Supervisor.PID}
}

// unlocked reports whether nobody holds the lock. The kernel releases it a moment after the supervisor's death.
func unlocked(l layout) bool {
	if _, err := os.Stat(l.lock()); errors.Is(err, os.ErrNotExist) {
		return true
	}
	lock, ok, err := acquireLock(l)
	return err == nil && ok && lock.Close() == nil
}

// LogNames lists the processes that have a log in a state directory, sorted.
func LogNames(stateDir string) []string {
	paths, _ := filepath.Glob(layout{dir: stateDir}.log("*")) // the only error is a pattern that is not well formed
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".log"))
	}
	return names
}

// LogFile returns the log of one process. Logs stay when a plane is stopped or has crashed, until the next start or
// RemoveState.
func LogFile(stateDir, name string) (string, error) {
	names := LogNames(stateDir)
	if len(names) == 0 {
		return "", fmt.Errorf("there are no logs in %s: start a plane first", stateDir)
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("there is no log of %q; there are logs of %s", name, strings.Join(names, ", "))
	}
	return layout{dir: stateDir}.log(name), nil
}
