//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/unit"
)

// Where units are, the first one that has it wins.
var unitFolders = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}

const wants = "/etc/systemd/system/multi-user.target.wants"

// manager keeps the services. Its mutex guards all of them.
type manager struct {
	processes *processes
	mu        sync.Mutex
	services  map[string]*service
	counter   int
}

func newManager(p *processes) *manager {
	return &manager{processes: p, services: map[string]*service{}}
}

// service is a unit that has been loaded. What is written to its files afterwards counts after the next daemon-reload.
type service struct {
	name      string
	unit      *unit.Service
	files     map[string]time.Time // what it was read from, and when that was written
	transient bool
	collect   bool
	state     state
	restarts  int
	starts    []time.Time
	run       *run
}

// state is what `systemctl show` prints.
type state struct {
	active, sub, result string
	mainPID             int
	exit                exit
	exited              bool
	invocation          string
}

var idle = state{active: "inactive", sub: "dead", result: "success"}

// loadError says that a unit is not there (found false) or cannot be read.
type loadError struct {
	name  string
	found bool
	err   error
}

func (e *loadError) Error() string {
	if !e.found {
		return fmt.Sprintf("Unit %s not found.", e.name)
	}
	return fmt.Sprintf("Unit %s has a bad unit file setting: %v", e.name, e.err)
}

func (e *loadError) Unwrap() error { return e.err }

// unitName adds ".service" where no type is given.
func unitName(name string) string {
	if filepath.Ext(name) == ".service" {
		return name
	}
	return name + ".service"
}

// load returns the service, from memory if it is there. The caller holds the lock.
func (m *manager) load(name string) (*service, error) {
	if s, ok := m.services[name]; ok {
		return s, nil
	}
	s := &service{name: name, state: idle}
	if err := s.read(); err != nil {
		return nil, err
	}
	m.services[name] = s
	return s, nil
}

// read takes the unit's files as they are now.
func (s *service) read() error {
	paths := unitFiles(s.name)
	if len(paths) == 0 {
		return &loadError{name: s.name}
	}
	u := unit.New()
	files := map[string]time.Time{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil {
			err = u.Read(string(text))
		}
		if err != nil {
			return &loadError{name: s.name, found: true, err: fmt.Errorf("%s: %w", path, err)}
		}
		files[path] = modified(path)
	}
	if len(u.Start) == 0 {
		return &loadError{name: s.name, found: true, err: errors.New("service has no ExecStart= setting")}
	}
	s.unit, s.files = u, files
	return nil
}

// unitFiles is the unit's file and then its drop-ins in the order of their names; nothing when there is no unit.
func unitFiles(name string) []string {
	fragment := ""
	dropIns := map[string]string{}
	for _, folder := range unitFolders {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); fragment == "" && err == nil && info.Mode().IsRegular() {
			fragment = path
		}
		more, err := filepath.Glob(filepath.Join(folder, name+".d", "*.conf"))
		if err != nil {
			continue // the pattern is ours
		}
		for _, path := range more {
			if _, ok := dropIns[filepath.Base(path)]; !ok {
				dropIns[filepath.Base(path)] = path
			}
		}
	}
	if fragment == "" {
		return nil
	}
	result := []string{fragment}
	names := make([]string, 0, len(dropIns))
	for name := range dropIns {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		result = append(result, dropIns[name])
	}
	return result
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// stale says whether the unit's files are others than those that were read.
func (s *service) stale() bool {
	if s.transient {
		return false
	}
	paths := unitFiles(s.name)
	if len(paths) != len(s.files) {
		return true
	}
	return slices.ContainsFunc(paths, func(path string) bool { return !modified(path).Equal(s.files[path]) })
}

// reload is daemon-reload: all units are read again. One whose files are gone or broken keeps what it runs.
func (m *manager) reload() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.services {
		if s.transient {
			continue
		}
		if s.run == nil && s.state.active == "inactive" {
			delete(m.services, name)
			continue
		}
		_ = s.read()
	}
}

// startEnabled starts what is enabled, side by side, and returns when each has started or failed.
func (m *manager) startEnabled() {
	entries, err := os.ReadDir(wants)
	if err != nil {
		return // nothing is enabled
	}
	var group sync.WaitGroup
	for _, entry := range entries {
		group.Go(func() {
			if err := m.start(entry.Name()); err != nil {
				journal(entry.Name(), "Failed to start %s: %v", entry.Name(), err)
			}
		})
	}
	group.Wait()
}

// start returns when the service counts as started, or why it does not.
func (m *manager) start(name string) error {
	m.mu.Lock()
	s, err := m.load(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	r := s.run
	if r == nil && s.state.active == "active" { // oneshot with RemainAfterExit
		m.mu.Unlock()
		return nil
	}
	if r == nil || s.state.sub == "auto-restart" {
		if r != nil {
			r.wake()
			r = s.follow()
		} else {
			r = m.launch(s)
		}
	}
	m.mu.Unlock()
	return <-r.waitStarted()
}

// follow lets a caller wait for the next attempt of a service that is about to be started again.
func (s *service) follow() *run {
	s.run.resetStarted()
	return s.run
}

// launch begins a run. The caller holds the lock.
func (m *manager) launch(s *service) *run {
	r := newRun(m, s)
	s.run = r
	s.restarts = 0
	s.state = state{active: "activating", sub: "start", result: "success"}
	go r.loop()
	return r
}

// stop returns when the service's processes are gone.
func (m *manager) stop(name string) error {
	m.mu.Lock()
	s, err := m.load(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	r := s.run
	if r == nil {
		if s.state.active == "active" { // oneshot with RemainAfterExit
			s.state = idle
		}
		m.collect(s)
		m.mu.Unlock()
		return nil
	}
	r.requestStop()
	m.mu.Unlock()
	<-r.ended
	return nil
}

// collect forgets a transient service that has ended: always after success, after a failure only with --collect. The caller
// holds the lock.
func (m *manager) collect(s *service) {
	if s.transient && s.run == nil && (s.state.active == "inactive" || s.collect && s.state.active == "failed") {
		delete(m.services, s.name)
	}
}

// resetFailed makes failed services inactive, and forgets their starts.
func (m *manager) resetFailed(names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for _, name := range names {
		if _, ok := m.services[name]; !ok && len(unitFiles(name)) == 0 {
			missing = append(missing, fmt.Sprintf("Failed to reset failed state of unit %s: Unit %s not loaded.", name, name))
		}
	}
	for name, s := range m.services {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		s.starts = nil
		if s.state.active == "failed" {
			s.state = idle
		}
		m.collect(s)
	}
	if len(missing) > 0 {
		return errors.New(strings.Join(missing, "\n"))
	}
	return nil
}
