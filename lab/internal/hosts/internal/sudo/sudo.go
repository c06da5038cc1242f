//go:build linux

// Package sudo stands in for Debian's sudo on machines that do not have it: root for those whom a file in /etc/sudoers.d
// gives NOPASSWD: ALL, and sudo's refusal for everybody else. It knows no passwords.
package sudo

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Main is sudo, installed as a setuid binary; it returns only where the command was not started.
func Main(args []string, stderr io.Writer) int {
	count := leading(args)
	for _, option := range args[:count] {
		if !slices.Contains([]string{"-n", "-E", "-H", "--"}, option) {
			fmt.Fprintf(stderr, "sudo: the stand-in knows no option %s\n", option)
			return 1
		}
	}
	command := args[count:]
	if len(command) == 0 {
		fmt.Fprintln(stderr, "usage: sudo [-n] [-E] [-H] [--] command")
		return 1
	}
	caller, err := user.LookupId(fmt.Sprint(os.Getuid()))
	if err != nil {
		fmt.Fprintf(stderr, "sudo: you do not exist in the passwd database: %v\n", err)
		return 1
	}
	if os.Getuid() != 0 && !permitted(caller.Username) {
		fmt.Fprintln(stderr, "sudo: a password is required")
		return 1
	}
	if err := become(caller.Username, command); err != nil {
		fmt.Fprintf(stderr, "sudo: %v\n", err)
	}
	return 1
}

// leading is how many options come before the command.
func leading(args []string) int {
	for i, arg := range args {
		if arg == "--" {
			return i + 1
		}
		if !strings.HasPrefix(arg, "-") {
			return i
		}
	}
	return len(args)
}

func permitted(name string) bool {
	paths, err := filepath.Glob("/etc/sudoers.d/*")
	if err != nil {
		return false
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(text), "\n"), name+" ALL=(ALL) NOPASSWD: ALL") {
			return true
		}
	}
	return false
}

func become(caller string, command []string) error {
	if err := syscall.Setgid(0); err != nil {
		return fmt.Errorf("becoming root: %w", err)
	}
	if err := syscall.Setgroups([]int{0}); err != nil {
		return fmt.Errorf("becoming root: %w", err)
	}
	if err := syscall.Setuid(0); err != nil {
		return fmt.Errorf("becoming root: %w", err)
	}
	environment := []string{"PATH=" + searchPath, "HOME=/root", "LOGNAME=root", "USER=root", "SHELL=/bin/bash", "SUDO_USER=" + caller}
	for _, name := range []string{"TERM", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	if err := os.Setenv("PATH", searchPath); err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("%s: command not found", command[0])
	}
	return syscall.Exec(path, command, environment)
}
