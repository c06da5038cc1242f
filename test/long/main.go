package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const recordFile = "test/long/record.txt"

func main() {
	budget := flag.Duration("budget", 80*time.Minute, "for how long batteries may run")
	flag.Parse()
	r := runner{root: ".", out: os.Stdout, all: batteries(), now: time.Now}
	os.Exit(r.status(*budget, flag.Args()))
}

// status runs as run until a signal ends it, and returns the exit status.
func (r runner) status(budget time.Duration, names []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := r.run(ctx, budget, names); err != nil {
		fmt.Fprintln(os.Stderr, "long:", err)
		return 1
	}
	return 0
}

// runner runs batteries.
type runner struct {
	// root is that of the repository.
	root string
	out  io.Writer
	all  []battery
	now  func() time.Time
}

// run runs the named batteries, or all, as far as the budget goes.
func (r runner) run(ctx context.Context, budget time.Duration, names []string) error {
	ends := r.now().Add(budget)
	chosen, err := r.choose(names)
	if err != nil {
		return err
	}
	commit, err := r.commit(ctx)
	if err != nil {
		return err
	}
	entries, err := r.readRecord()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var failures, left []string
	for _, b := range order(chosen, entries) {
		need := needs(find(entries, b.name), budget)
		switch {
		case need > budget:
			failures = append(failures, fmt.Sprintf("%s (needs BUDGET=%s)", b.name, need))
			continue
		case limited.Err() != nil || need > ends.Sub(r.now()):
			left = append(left, b.name)
			continue
		}
		done := r.runOne(limited, b)
		done.commit = commit
		if done.result == failed {
			failures = append(failures, b.name)
		}
		entries = note(entries, b.name, done)
		if err := r.writeRecord(entries); err != nil {
			return err
		}
	}
	r.summarize(entries, left)
	if ctx.Err() != nil {
		failures = append(failures, "all that was left out (interrupted)")
	}
	if len(failures) > 0 {
		return fmt.Errorf("failed: %s. Fix: see bin/log/long-NAME.log", strings.Join(failures, " "))
	}
	return nil
}

func (r runner) choose(names []string) ([]battery, error) {
	if len(names) == 0 {
		return r.all, nil
	}
	var chosen []battery
	for _, name := range names {
		i := slices.IndexFunc(r.all, func(b battery) bool { return b.name == name })
		if i < 0 {
			var known []string
			for _, b := range r.all {
				known = append(known, b.name)
			}
			return nil, fmt.Errorf("there is no battery %q. Fix: name one of: %s",
				name, strings.Join(known, " "))
		}
		chosen = append(chosen, r.all[i])
	}
	return chosen, nil
}

// commit returns the commit that is tested.
func (r runner) commit(ctx context.Context) (string, error) {
	changed, err := r.git(ctx, "status", "--porcelain", "--", ".", ":!"+recordFile)
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", fmt.Errorf("the work tree has changes, so no commit has what would be tested:\n"+
			"%s\nFix: commit them, or test a clean clone", changed)
	}
	return r.git(ctx, "rev-parse", "--short=8", "HEAD")
}

func (r runner) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) // #nosec G204 -- fixed words
	cmd.Dir = r.root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// runOne runs a battery until it ends or ctx is done.
func (r runner) runOne(ctx context.Context, b battery) run {
	began := r.now()
	fmt.Fprintf(r.out, "%s  %s ...\n", began.UTC().Format(time.TimeOnly), b.name)
	err := r.execute(ctx, b)
	done := run{
		day:    began.UTC().Format("2006-01-02T15:04:05"),
		result: passed, took: r.now().Sub(began).Round(time.Second),
	}
	switch {
	case err != nil && ctx.Err() != nil:
		done.result = stopped
	case err != nil:
		done.result = failed
		fmt.Fprintf(r.out, "          %v\n", err)
	}
	fmt.Fprintf(r.out, "          %s after %s\n", done.result, done.took)
	return done
}

// guard makes the shell of a battery kill its process group when the pipe of file descriptor 3 closes:
// when this process ends, even by SIGKILL, or has executed the battery.
const guard = "( { trap '' TERM; read -r -u 3; kill -KILL 0; } & ); exec 3<&-\n"

// execute executes the command of a battery in a process group. The whole group ends with it, with ctx,
// and with this process: tests start planes and hosts, which must not outlive them.
func (r runner) execute(ctx context.Context, b battery) error {
	log := filepath.Join(r.root, "bin", "log", "long-"+b.name+".log")
	if err := os.MkdirAll(filepath.Dir(log), 0o750); err != nil {
		return fmt.Errorf("creating the folder of logs: %w", err)
	}
	file, err := os.Create(log) // #nosec G304 -- the name of a battery
	if err != nil {
		return fmt.Errorf("creating the log of battery %s: %w", b.name, err)
	}
	defer file.Close() //nolint:errcheck // A log that is incomplete changes no result.
	closes, open, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("creating the pipe of battery %s: %w", b.name, err)
	}
	defer open.Close()   //nolint:errcheck // Nothing is written.
	defer closes.Close() //nolint:errcheck // Nothing is written.
	// #nosec G204 -- batteries.go has it
	cmd := exec.CommandContext(ctx, "bash", "-c", guard+b.command)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = r.root, file, file, []*os.File{closes}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		// Some processes may have ignored SIGTERM. The group exists, because the guard is in it.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if err != nil {
		return fmt.Errorf("battery %s: %w", b.name, err)
	}
	return nil
}

func (r runner) readRecord() ([]entry, error) {
	text, err := os.ReadFile(filepath.Join(r.root, recordFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	entries, err := parseRecord(string(text))
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", recordFile, err)
	}
	return entries, nil
}

// writeRecord writes the record beside itself first, so that a kill leaves the old one or the new.
func (r runner) writeRecord(entries []entry) error {
	path := filepath.Join(r.root, recordFile)
	if err := os.WriteFile(path+".new", []byte(formatRecord(entries)), 0o600); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}

// summarize prints what was left out, and the battery that passed longest ago.
func (r runner) summarize(entries []entry, left []string) {
	if len(left) > 0 {
		fmt.Fprintf(r.out, "left out, for lack of time: %s\n", strings.Join(left, " "))
	}
	oldest := slices.MinFunc(r.all, func(a, b battery) int {
		return strings.Compare(find(entries, a.name).pass.day, find(entries, b.name).pass.day)
	})
	switch e := find(entries, oldest.name); e.pass.day {
	case "":
		fmt.Fprintf(r.out, "oldest: %s never passed\n", e.name)
	default:
		fmt.Fprintf(r.out, "oldest: %s passed on %s at %s\n", e.name, e.pass.day, e.pass.commit)
	}
}
