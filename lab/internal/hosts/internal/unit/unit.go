// Package unit reads the subset of systemd's unit files that services of Kubernetes hosts use. It is pure: files come in as
// text.
package unit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Type is when a service counts as started.
type Type string

// The types that are known.
const (
	Simple  Type = "simple"
	Exec    Type = "exec"
	Notify  Type = "notify"
	Oneshot Type = "oneshot"
)

// Command is one line of ExecStart or ExecStartPre.
type Command struct {
	// Line is the command line as written, without its prefix.
	Line string
	// IgnoreFailure is the prefix "-".
	IgnoreFailure bool
}

// EnvironmentFile names a file of NAME=VALUE lines. A missing one is an error unless it is Optional (prefix "-").
type EnvironmentFile struct {
	Path     string
	Optional bool
}

// Service is what a unit file and its drop-ins say.
type Service struct {
	Description      string
	Type             Type
	Start, StartPre  []Command
	Environment      []string
	EnvironmentFiles []EnvironmentFile
	WorkingDirectory string
	// Restart is "no", "always" or "on-failure", or another of systemd's words.
	Restart             string
	RestartDelay        time.Duration
	StopTimeout         time.Duration
	StartTimeout        time.Duration
	StartLimitInterval  time.Duration
	StartLimitBurst     int
	KillMode            string
	RemainAfterExit     bool
	SuccessExit         []int
	StandardOutput      string
	StandardError       string
	RuntimeDirectories  []string
	WantedBy            []string
	restartPreventExits []int
}

// New is a service of which nothing has been said: systemd's defaults.
func New() *Service {
	return &Service{
		Type: Simple, Restart: "no", KillMode: "control-group", StandardOutput: "journal", StandardError: "inherit",
		RestartDelay: 100 * time.Millisecond, StopTimeout: 90 * time.Second, StartTimeout: 90 * time.Second,
		StartLimitInterval: 10 * time.Second, StartLimitBurst: 5,
	}
}

// Read folds one file, the unit's or a drop-in's, into the service. Settings that are not known are ignored, as systemd
// does.
func (s *Service) Read(text string) error {
	section := ""
	text = strings.ReplaceAll(text, "\\\n", " ")
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, ";"):
			continue
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d: missing '='", number+1)
		}
		if err := s.set(section, strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	return nil
}

func (s *Service) set(section, key, value string) error {
	switch section {
	case "Unit":
		_, err := s.setUnit(key, value)
		return err
	case "Install":
		if key == "WantedBy" {
			s.WantedBy = list(s.WantedBy, value)
		}
		return nil
	case "Service":
		_, err := s.setService(key, value)
		return err
	}
	return nil
}

// SetProperty is `systemd-run --property`. A property that systemd knows, but that means nothing here, is accepted.
func (s *Service) SetProperty(key, value string) error {
	for _, set := range []func(string, string) (bool, error){s.setUnit, s.setService} {
		if known, err := set(key, value); known || err != nil {
			return err
		}
	}
	for _, prefix := range []string{
		"CPU", "Memory", "IO", "Tasks", "Limit", "OOM", "Nice", "Delegate", "Slice", "User", "Group", "KillSignal", "SendSIG",
		"RuntimeMaxSec", "CollectMode", "SyslogIdentifier", "After", "Before", "Wants", "Requires", "Conflicts",
	} {
		if strings.HasPrefix(key, prefix) {
			return nil
		}
	}
	return fmt.Errorf("unknown assignment: %s=%s", key, value)
}

func (s *Service) setUnit(key, value string) (bool, error) {
	var err error
	switch key {
	case "Description":
		s.Description = value
	case "StartLimitIntervalSec", "StartLimitInterval":
		s.StartLimitInterval, err = duration(value)
	case "StartLimitBurst":
		s.StartLimitBurst, err = strconv.Atoi(value)
	default:
		return false, nil
	}
	return true, located(key, err)
}

func (s *Service) setService(key, value string) (known bool, err error) {
	// StartLimitInterval was a setting of [Service] once, and is still understood there.
	if known, err := s.setUnit(key, value); known && key != "Description" {
		return true, err
	}
	for _, set := range []func(string, string) (bool, error){s.setCommands, s.setTimes, s.setWords} {
		if known, err := set(key, value); known {
			return true, located(key, err)
		}
	}
	return false, nil
}

func (s *Service) setCommands(key, value string) (bool, error) {
	var err error
	switch key {
	case "ExecStart":
		s.Start, err = commands(s.Start, value)
	case "ExecStartPre":
		s.StartPre, err = commands(s.StartPre, value)
	case "Environment":
		s.Environment, err = words(s.Environment, value)
	case "EnvironmentFile":
		if value == "" {
			s.EnvironmentFiles = nil
			break
		}
		path, optional := strings.CutPrefix(value, "-")
		s.EnvironmentFiles = append(s.EnvironmentFiles, EnvironmentFile{Path: path, Optional: optional})
	default:
		return false, nil
	}
	return true, err
}

func (s *Service) setTimes(key, value string) (bool, error) {
	var err error
	switch key {
	case "RestartSec":
		s.RestartDelay, err = duration(value)
	case "TimeoutStopSec":
		s.StopTimeout, err = duration(value)
	case "TimeoutStartSec":
		s.StartTimeout, err = duration(value)
	case "TimeoutSec":
		s.StartTimeout, err = duration(value)
		s.StopTimeout = s.StartTimeout
	default:
		return false, nil
	}
	return true, err
}

func (s *Service) setWords(key, value string) (bool, error) {
	var err error
	switch key {
	case "Type":
		s.Type, err = parseType(value)
	case "Restart":
		s.Restart = value
	case "KillMode":
		s.KillMode = value
	case "WorkingDirectory":
		s.WorkingDirectory = value
	case "RemainAfterExit":
		s.RemainAfterExit = isTrue(value)
	case "StandardOutput":
		s.StandardOutput = value
	case "StandardError":
		s.StandardError = value
	case "RuntimeDirectory":
		s.RuntimeDirectories = list(s.RuntimeDirectories, value)
	case "SuccessExitStatus":
		s.SuccessExit, err = statuses(s.SuccessExit, value)
	case "RestartPreventExitStatus":
		s.restartPreventExits, err = statuses(s.restartPreventExits, value)
	default:
		return false, nil
	}
	return true, err
}

// Restarts says whether the service is started again by itself after its main process ended with status. A process killed
// by a signal counts as failed, as does every status but 0 and those of SuccessExitStatus.
func (s *Service) Restarts(status int, failed bool) bool {
	if !failed {
		return s.Restart == "always" || s.Restart == "on-success"
	}
	if slices.Contains(s.restartPreventExits, status) {
		return false
	}
	return s.Restart == "always" || s.Restart == "on-failure"
}

func parseType(value string) (Type, error) {
	switch value {
	case "", "simple", "idle":
		return Simple, nil
	case "exec":
		return Exec, nil
	case "notify", "notify-reload":
		return Notify, nil
	case "oneshot":
		return Oneshot, nil
	}
	return "", fmt.Errorf("type %q is not supported on a test host", value)
}

func commands(have []Command, value string) ([]Command, error) {
	if value == "" {
		return nil, nil
	}
	line := strings.TrimLeft(value, "-@:+!")
	if _, err := split(line); err != nil {
		return nil, err
	}
	prefix := value[:len(value)-len(line)]
	return append(have, Command{Line: line, IgnoreFailure: strings.Contains(prefix, "-")}), nil
}

func words(have []string, value string) ([]string, error) {
	if value == "" {
		return nil, nil
	}
	more, err := split(value)
	return append(have, more...), err
}

func list(have []string, value string) []string {
	if value == "" {
		return nil
	}
	return append(have, strings.Fields(value)...)
}

func statuses(have []int, value string) ([]int, error) {
	for word := range strings.FieldsSeq(value) {
		status, err := strconv.Atoi(word)
		if err != nil {
			continue // a signal's name
		}
		have = append(have, status)
	}
	return have, nil
}

func isTrue(value string) bool {
	return slices.Contains([]string{"1", "yes", "true", "on"}, strings.ToLower(value))
}

// duration reads seconds, or a time span such as "1min 30s".
func duration(value string) (time.Duration, error) {
	if value == "infinity" {
		return 365 * 24 * time.Hour, nil
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return time.ParseDuration(strings.ReplaceAll(strings.ReplaceAll(value, "min", "m"), " ", ""))
}

func located(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
