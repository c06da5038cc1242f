//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// client does what one of the clients asks; args[0] is its name.
func (m *manager) client(args []string, root bool) wire.Response {
	switch filepath.Base(args[0]) {
	case "systemctl":
		return m.systemctl(args[1:], root)
	case "systemd-run":
		if !root {
			return failure(1, "Failed to start transient service unit: Interactive authentication required.")
		}
		return m.systemdRun(args[1:])
	case "journalctl":
		return journalctl(args[1:])
	}
	return failure(1, "%s: not a program of this host", args[0])
}

// options of systemctl.
type options struct {
	verb       string
	units      []string
	properties []string
	value, now bool
	quiet      bool
	signal     string
	whom       string
}

// parseSystemctl reads the options that are supported, and those that change nothing here.
func parseSystemctl(args []string) (options, error) {
	o := options{signal: "TERM", whom: "all"}
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		next := func() string {
			if has {
				return value
			}
			i++
			if i < len(args) {
				return args[i]
			}
			return ""
		}
		switch name {
		case "-p", "-P", "--property":
			o.value = o.value || name == "-P"
			o.properties = append(o.properties, strings.Split(next(), ",")...)
		case "--value":
			o.value = true
		case "--now":
			o.now = true
		case "-q", "--quiet":
			o.quiet = true
		case "-s", "--signal":
			o.signal = next()
		case "--kill-who", "--kill-whom":
			o.whom = next()
		case "--no-pager", "--no-ask-password", "--system", "-l", "--full", "--plain", "--no-legend", "--no-block", "-f", "--force":
		case "-n", "--lines":
			next()
		default:
			if strings.HasPrefix(name, "-") {
				return o, fmt.Errorf("systemctl: unrecognized option '%s'", args[i])
			}
			if o.verb == "" {
				o.verb = args[i]
				continue
			}
			o.units = append(o.units, unitName(args[i]))
		}
	}
	return o, nil
}

// verb does one verb of systemctl.
type verb struct {
	do func(*manager, options) wire.Response
	// readOnly may be used by everybody.
	readOnly bool
	// bare needs no unit.
	bare bool
}

func verbs() map[string]verb {
	return map[string]verb{
		"start":             {do: each("start", (*manager).start)},
		"stop":              {do: each("stop", (*manager).stop)},
		"restart":           {do: each("restart", (*manager).restart)},
		"try-restart":       {do: each("restart", (*manager).tryRestart)},
		"reload-or-restart": {do: each("restart", (*manager).restart)},
		"daemon-reload":     {do: func(m *manager, _ options) wire.Response { m.reload(); return wire.Response{} }, bare: true},
		"enable":            {do: (*manager).enable},
		"disable":           {do: (*manager).disable},
		"kill":              {do: (*manager).kill},
		"reset-failed":      {do: (*manager).resetFailedVerb, bare: true},
		"is-active":         {do: (*manager).isActive, readOnly: true},
		"is-failed":         {do: (*manager).isFailed, readOnly: true},
		"is-enabled":        {do: (*manager).isEnabled, readOnly: true},
		"status":            {do: (*manager).status, readOnly: true},
		"show":              {do: (*manager).show, readOnly: true},
		"cat":               {do: (*manager).cat, readOnly: true},
	}
}

func (m *manager) systemctl(args []string, root bool) wire.Response {
	if slices.Contains(args, "--version") {
		return wire.Response{Stdout: []byte("systemd 252 (test host)\n")}
	}
	o, err := parseSystemctl(args)
	if err != nil {
		return failure(1, "%v", err)
	}
	v, ok := verbs()[o.verb]
	switch {
	case !ok:
		return failure(1, "Unknown command verb %s.", o.verb)
	case !root && !v.readOnly:
		return failure(4, "Failed to %s %s: Interactive authentication required.", o.verb, strings.Join(o.units, " "))
	case len(o.units) == 0 && !v.bare:
		return failure(1, "Too few arguments.")
	}
	return v.do(m, o)
}

// each makes a verb of what is done to one unit after another.
func each(name string, do func(*manager, string) error) func(*manager, options) wire.Response {
	return func(m *manager, o options) wire.Response {
		var response wire.Response
		for _, unit := range o.units {
			m.warnStale(unit, &response)
			err := do(m, unit)
			var missing *loadError
			switch {
			case err == nil:
				continue
			case errors.As(err, &missing):
				response.Code = 5
				if name == "stop" {
					err = fmt.Errorf("Unit %s not loaded.", unit) //nolint:staticcheck,revive // systemd's words.
				}
				response.Stderr = fmt.Appendf(response.Stderr, "Failed to %s %s: %v\n", name, unit, err)
			default:
				response.Code = 1
				response.Stderr = fmt.Appendf(response.Stderr, "Job for %s failed because %v.\n"+
					"See \"systemctl status %s\" and \"journalctl -xeu %s\" for details.\n", unit, err, unit, unit)
			}
		}
		return response
	}
}

func (m *manager) warnStale(name string, response *wire.Response) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.services[name]; ok && s.stale() {
		response.Stderr = fmt.Appendf(response.Stderr, "Warning: The unit file, source configuration file or drop-ins of %s changed on disk. "+
			"Run 'systemctl daemon-reload' to reload units.\n", name)
	}
}

func (m *manager) restart(name string) error {
	if err := m.stop(name); err != nil {
		return err
	}
	return m.start(name)
}

func (m *manager) tryRestart(name string) error {
	m.mu.Lock()
	s, err := m.load(name)
	running := err == nil && s.run != nil
	m.mu.Unlock()
	if err != nil || !running {
		return err
	}
	return m.restart(name)
}

func (m *manager) enable(o options) wire.Response {
	var response wire.Response
	for _, name := range o.units {
		files := unitFiles(name)
		if len(files) == 0 {
			return failure(1, "Failed to enable unit: Unit file %s does not exist.", name)
		}
		link := filepath.Join(wants, name)
		if err := os.MkdirAll(wants, 0o755); err != nil {
			return failure(1, "Failed to enable unit: %v", err)
		}
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(files[0], link); err != nil {
			return failure(1, "Failed to enable unit: %v", err)
		}
		response.Stderr = fmt.Appendf(response.Stderr, "Created symlink %s → %s.\n", link, files[0])
	}
	if o.now {
		started := each("start", (*manager).start)(m, o)
		started.Stderr = append(response.Stderr, started.Stderr...)
		return started
	}
	return response
}

func (m *manager) disable(o options) wire.Response {
	var response wire.Response
	for _, name := range o.units {
		link := filepath.Join(wants, name)
		switch err := os.Remove(link); {
		case err == nil:
			response.Stderr = fmt.Appendf(response.Stderr, "Removed %q.\n", link)
		case !errors.Is(err, os.ErrNotExist):
			return failure(1, "Failed to disable unit: %v", err)
		}
	}
	if o.now {
		stopped := each("stop", (*manager).stop)(m, o)
		stopped.Stderr = append(response.Stderr, stopped.Stderr...)
		return stopped
	}
	return response
}

func (m *manager) kill(o options) wire.Response {
	number := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(o.signal), "SIG"))
	if o.signal == "9" {
		number = syscall.SIGKILL
	}
	if number == 0 {
		return failure(1, "Failed to parse signal string %s.", o.signal)
	}
	for _, name := range o.units {
		m.mu.Lock()
		s, ok := m.services[name]
		var current state
		if ok {
			current = s.state
		}
		m.mu.Unlock()
		if !ok || current.invocation == "" {
			return failure(1, "Failed to kill unit %s: Unit %s not loaded.", name, name)
		}
		if o.whom == "main" {
			if current.mainPID == 0 {
				return failure(1, "Failed to kill unit %s: No main process to kill", name)
			}
			_ = syscall.Kill(current.mainPID, number)
			continue
		}
		signalAll("INVOCATION_ID="+current.invocation, current.mainPID, number)
	}
	return wire.Response{}
}

func (m *manager) resetFailedVerb(o options) wire.Response {
	if err := m.resetFailed(o.units); err != nil {
		return failure(1, "%v", err)
	}
	return wire.Response{}
}
