//go:build linux

package pid1

import (
	"fmt"
	"os"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/unit"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// transient is what systemd-run is asked for.
type transient struct {
	name           string
	unit           *unit.Service
	collect, quiet bool
	wait, noBlock  bool
	command        []string
}

func parseSystemdRun(args []string) (transient, error) {
	t := transient{unit: unit.New()}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, has := strings.Cut(args[0], "=")
		args = args[1:]
		if name == "--" {
			break
		}
		if known := t.flag(name); known {
			continue
		}
		if !has {
			if len(args) == 0 {
				return t, fmt.Errorf("systemd-run: option requires an argument -- '%s'", name)
			}
			value, args = args[0], args[1:]
		}
		if err := t.option(name, value); err != nil {
			return t, err
		}
	}
	if len(args) == 0 {
		return t, fmt.Errorf("Command line to execute required.") //nolint:staticcheck,revive // systemd's words.
	}
	t.command = args
	return t, nil
}

// flag reads an option without a value.
func (t *transient) flag(name string) bool {
	switch name {
	case "-G", "--collect":
		t.collect = true
	case "-q", "--quiet":
		t.quiet = true
	case "--wait":
		t.wait = true
	case "--no-block":
		t.noBlock = true
	case "-r", "--remain-after-exit":
		t.unit.RemainAfterExit = true
	case "--no-ask-password", "--system":
	default:
		return false
	}
	return true
}

func (t *transient) option(name, value string) error {
	switch name {
	case "-u", "--unit":
		t.name = unitName(value)
	case "-p", "--property":
		key, setting, ok := strings.Cut(value, "=")
		if !ok {
			return fmt.Errorf("Not an assignment: %s", value) //nolint:staticcheck // systemd's words.
		}
		return t.unit.SetProperty(key, setting)
	case "-E", "--setenv":
		t.unit.Environment = append(t.unit.Environment, value)
	case "--working-directory":
		t.unit.WorkingDirectory = value
	case "--description":
		t.unit.Description = value
	case "--service-type":
		return t.unit.SetProperty("Type", value)
	case "--slice", "--nice":
	default:
		return fmt.Errorf("systemd-run: unrecognized option '%s'", name)
	}
	return nil
}

func (m *manager) systemdRun(args []string) wire.Response {
	t, err := parseSystemdRun(args)
	if err != nil {
		return failure(1, "%v", err)
	}
	if path, err := look(t.command[0]); err != nil || !executable(path) {
		return failure(1, "Failed to find executable %s: No such file or directory", t.command[0])
	}
	r, err := m.launchTransient(&t)
	if err != nil {
		return failure(1, "Failed to start transient service unit: %v", err)
	}
	var response wire.Response
	if !t.quiet {
		response.Stderr = fmt.Appendf(nil, "Running as unit: %s\n", t.name)
	}
	if t.noBlock {
		return response
	}
	if err := <-r.waitStarted(); err != nil && !t.wait {
		return failure(1, "Job for %s failed because %v.", t.name, err)
	}
	if t.wait {
		<-r.ended
		response.Code = r.last.code()
	}
	return response
}

func (m *manager) launchTransient(t *transient) (*run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.name == "" {
		m.counter++
		t.name = fmt.Sprintf("run-u%d.service", m.counter)
	}
	// A transient unit that failed, and is not collected, keeps its name until reset-failed.
	if _, loaded := m.services[t.name]; loaded || len(unitFiles(t.name)) > 0 {
		return nil, fmt.Errorf("Unit %s was already loaded or has a fragment file.", t.name) //nolint:staticcheck,revive // systemd's words.
	}
	t.unit.Start = []unit.Command{{Line: quote(t.command)}}
	s := &service{name: t.name, unit: t.unit, transient: true, collect: t.collect, state: idle}
	m.services[t.name] = s
	return m.launch(s), nil
}

// quote makes one line of a command that is split again later. Variables are put in then, as systemd does: a script with
// ${NAME} or $$ in it does not arrive as it was written.
func quote(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(word) + `"`
	}
	return strings.Join(words, " ")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
