//go:build linux

package pid1

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/unit"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// look returns what is known of a unit now; found is false where there is neither a file nor a transient unit.
func (m *manager) look(name string) (current service, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.load(name)
	if err != nil {
		return service{name: name, state: idle}, false
	}
	return *s, true
}

func (m *manager) isActive(o options) wire.Response {
	return m.judge(o, 3, "active", "reloading")
}

func (m *manager) isFailed(o options) wire.Response {
	return m.judge(o, 1, "failed")
}

// judge prints each unit's state; the status is 0 where one of them is in one of the good states.
func (m *manager) judge(o options, bad int, good ...string) wire.Response {
	response := wire.Response{Code: bad}
	known := false
	for _, name := range o.units {
		s, found := m.look(name)
		known = known || found
		if slices.Contains(good, s.state.active) {
			response.Code = 0
		}
		if !o.quiet {
			response.Stdout = fmt.Appendln(response.Stdout, s.state.active)
		}
	}
	if !known && response.Code == 3 {
		response.Code = 4
	}
	return response
}

func (m *manager) isEnabled(o options) wire.Response {
	var response wire.Response
	for _, name := range o.units {
		word := fileState(name)
		switch word {
		case "":
			response.Code = 1
			response.Stderr = fmt.Appendf(response.Stderr, "Failed to get unit file state for %s: No such file or directory\n", name)
			continue
		case "disabled":
			response.Code = 1
		}
		if !o.quiet {
			response.Stdout = fmt.Appendln(response.Stdout, word)
		}
	}
	return response
}

// fileState is "enabled", "disabled", or nothing where there is no unit file.
func fileState(name string) string {
	if len(unitFiles(name)) == 0 {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(wants, name)); err == nil {
		return "enabled"
	}
	return "disabled"
}

func (m *manager) status(o options) wire.Response {
	var response wire.Response
	for _, name := range o.units {
		s, found := m.look(name)
		if !found {
			response.Code = 4
			response.Stderr = fmt.Appendf(response.Stderr, "Unit %s could not be found.\n", name)
			continue
		}
		if s.state.active != "active" {
			response.Code = 3
		}
		response.Stdout = fmt.Appendf(response.Stdout, "● %s - %s\n     Loaded: %s\n     Active: %s (%s)\n   Main PID: %d\n\n%s", name,
			s.unit.Description, loaded(&s), s.state.active, s.state.sub, s.state.mainPID, tail(name, 10))
	}
	return response
}

func loaded(s *service) string {
	if s.transient {
		return "loaded (transient)"
	}
	return fmt.Sprintf("loaded (%s; %s)", fragment(s.name), fileState(s.name))
}

func fragment(name string) string {
	if files := unitFiles(name); len(files) > 0 {
		return files[0]
	}
	return ""
}

// property is one line of `systemctl show`.
type property struct{ name, value string }

func properties(s *service, found bool) []property {
	load, description := "loaded", s.name
	if !found {
		load = "not-found"
	}
	kind, restart := "", ""
	start, environment := "", ""
	if s.unit != nil {
		start, environment = execStart(s.unit), strings.Join(s.unit.Environment, " ")
		kind, restart = string(s.unit.Type), s.unit.Restart
		if s.unit.Description != "" {
			description = s.unit.Description
		}
	}
	// As waitid(2) numbers them: 1 exited, 2 killed.
	code, status := 0, 0
	switch {
	case s.state.exited && s.state.exit.signal != 0:
		code, status = 2, int(s.state.exit.signal)
	case s.state.exited:
		code, status = 1, s.state.exit.status
	}
	return []property{
		{"Type", kind},
		{"Restart", restart},
		{"MainPID", strconv.Itoa(s.state.mainPID)},
		{"Result", s.state.result},
		{"NRestarts", strconv.Itoa(s.restarts)},
		{"ExecMainPID", strconv.Itoa(s.state.mainPID)},
		{"ExecMainCode", strconv.Itoa(code)},
		{"ExecMainStatus", strconv.Itoa(status)},
		{"ExecStart", start},
		{"Environment", environment},
		{"Id", s.name},
		{"Description", description},
		{"LoadState", load},
		{"ActiveState", s.state.active},
		{"SubState", s.state.sub},
		{"FragmentPath", fragment(s.name)},
		{"UnitFileState", fileState(s.name)},
		{"NeedDaemonReload", yesNo(found && s.stale())},
		{"Transient", yesNo(s.transient)},
		{"InvocationID", s.state.invocation},
	}
}

// execStart prints commands as systemd does, as far as programs read them.
func execStart(u *unit.Service) string {
	var lines []string
	for _, c := range u.Start {
		path, _, _ := strings.Cut(c.Line, " ")
		lines = append(lines, fmt.Sprintf("{ path=%s ; argv[]=%s ; ignore_errors=%s }", path, c.Line, yesNo(c.IgnoreFailure)))
	}
	return strings.Join(lines, "\n")
}

func yesNo(value bool) string {
	if value {
		return "yes"
	}
	return "no"
}

// show prints properties in the order in which they are asked for, all of them where none is.
func (m *manager) show(o options) wire.Response {
	var response wire.Response
	for i, name := range o.units {
		if i > 0 {
			response.Stdout = append(response.Stdout, '\n')
		}
		s, found := m.look(name)
		all := properties(&s, found)
		for _, p := range all {
			switch {
			case len(o.properties) > 0 && !slices.Contains(o.properties, p.name):
			case o.value:
				response.Stdout = fmt.Appendln(response.Stdout, p.value)
			default:
				response.Stdout = fmt.Appendf(response.Stdout, "%s=%s\n", p.name, p.value)
			}
		}
	}
	return response
}

func (m *manager) cat(o options) wire.Response {
	var response wire.Response
	for _, name := range o.units {
		files := unitFiles(name)
		if len(files) == 0 {
			return failure(1, "No files found for %s.", name)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				return failure(1, "Failed to cat %s: %v", path, err)
			}
			response.Stdout = fmt.Appendf(response.Stdout, "# %s\n%s\n", path, text)
		}
	}
	return response
}

// journalctl prints a unit's output: -u NAME, -n LINES. What else it is told changes nothing here.
func journalctl(args []string) wire.Response {
	var units []string
	lines := -1
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		if strings.HasPrefix(name, "-n") && len(name) > 2 {
			name, value, has = "-n", name[2:], true
		}
		if strings.HasPrefix(name, "-u") && len(name) > 2 {
			name, value, has = "-u", name[2:], true
		}
		if !has && slices.Contains([]string{"-u", "--unit", "-n", "--lines", "-o", "--output", "-S", "--since", "-U", "--until"}, name) {
			i++
			if i == len(args) {
				return failure(1, "journalctl: option requires an argument -- '%s'", name)
			}
			value = args[i]
		}
		switch name {
		case "-u", "--unit":
			units = append(units, unitName(value))
		case "-n", "--lines":
			count, err := strconv.Atoi(value)
			if err != nil {
				return failure(1, "Failed to parse lines '%s'", value)
			}
			lines = count
		}
	}
	var response wire.Response
	for _, name := range units {
		response.Stdout = append(response.Stdout, tail(name, lines)...)
	}
	if len(response.Stdout) == 0 {
		response.Stdout = []byte("-- No entries --\n")
	}
	return response
}

// tail is the last lines of a unit's output, all of it for a negative number.
func tail(name string, lines int) string {
	text, err := os.ReadFile(filepath.Join(wire.Journal, name+".log"))
	if err != nil {
		return ""
	}
	all := strings.SplitAfter(string(text), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	if lines >= 0 && len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "")
}
