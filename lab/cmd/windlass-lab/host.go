//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// hostFrom and hostTo are the versions of the stand-ins that run on the host, and that lie beside them.
const hostFrom, hostTo = "v1.35.4", "v1.36.3"

// hostOptions are the flags of windlass-lab host.
type hostOptions struct{ folder string }

func addHostCommand(root *cobra.Command) {
	root.AddCommand(newHostCommand(), newSiteCommand(), newProviderCommand())
}

// checkHosts reports what is missing on this machine to run hosts.
func checkHosts(ctx context.Context) error {
	session := hosts.NewSession(ctx)
	return session.Do(func() error { hosts.Require(session); return nil })
}

func newHostCommand() *cobra.Command {
	var o hostOptions
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Start a Linux host on this machine, to try upgrades of hosts",
		Long: `Start a Linux host with sshd on this machine: namespaces, a disk of its own, an init that reads systemd units, and
stand-ins for kubeadm and the kubelet. It needs root. The host runs until you interrupt this command.

The keys to log in with, the host's key and the digests of the binaries are in the folder that --folder names.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.folder, "folder", ".windlass/host", "folder for the files that a login needs")
	return cmd
}

func (o *hostOptions) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	unlock, err := lockFolder(o.folder, "another host runs already, with its files in %s. "+
		"Fix: use that host, or interrupt it first")
	if err != nil {
		return err
	}
	defer unlock()
	session := hosts.NewSession(ctx)
	defer func() { err = errors.Join(err, session.End()) }()
	return session.Do(func() error { return o.play(session, in, out) }) //nolint:contextcheck // the session has it
}

// play starts the host and keeps it until the context of the session ends.
func (o *hostOptions) play(session *hosts.Session, in io.Reader, out io.Writer) error {
	host, digests, err := startPlayHost(session)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"id": host.Key("root"), "id_" + hosts.Ops: host.Key(hosts.Ops),
		"known_hosts": append(host.KnownHosts(), '\n'), "SHA256SUMS": []byte(digests),
	} {
		if err := os.WriteFile(filepath.Join(o.folder, name), content, 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, `
A Linux host with stand-ins for kubeadm and the kubelet, %[1]s, runs until you interrupt this (^C). In another terminal:

  %[6]s updater kubeadm run --host %[2]s --to %[3]s --identity %[4]s/id --known-hosts %[4]s/known_hosts \
    --binaries-folder /opt/binaries --digests %[4]s/SHA256SUMS --no-drain --dry-run

The user %[5]s is not root and may use sudo: --user %[5]s --identity %[4]s/id_%[5]s.
Press Enter to cut the host's power and boot it again with its disk unchanged.

`, hostFrom, host.Address(), hostTo, o.folder, hosts.Ops, ownCommands().Windlass)
	return keepHost(session.Context(), host, in, out)
}

// startPlayHost starts the host. It returns the digests of the binaries in /opt/binaries.
func startPlayHost(tb hosts.TB) (host *hosts.Host, digests string, err error) {
	files := map[string][]byte{
		"/etc/systemd/system/kubelet.service": []byte(
			"[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"),
		"/etc/kubernetes/kubelet.conf":       []byte("clusters: []\n"),
		"/var/lib/kubelet/kubeadm-flags.env": []byte("KUBELET_KUBEADM_ARGS=\"\"\n"),
	}
	installed, err := hosts.StandIn(hostFrom)
	if err != nil {
		return nil, "", err
	}
	for name, content := range installed {
		files["/usr/bin/"+name] = content
	}
	next, err := hosts.StandIn(hostTo)
	if err != nil {
		return nil, "", err
	}
	var lines []string
	for name, content := range next {
		path := hostTo + "/linux/amd64/" + name
		files["/opt/binaries/"+path] = content
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), path))
	}
	slices.Sort(lines)
	host = hosts.Start(tb, hosts.Options{Name: "play", Files: files, Enable: []string{"kubelet"}})
	return host, strings.Join(lines, ""), nil
}

// keepHost keeps the host until ctx ends. Each line of in is a power cut and a boot.
func keepHost(ctx context.Context, host *hosts.Host, in io.Reader, out io.Writer) error {
	enter := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			enter <- struct{}{}
		}
	}()
	ended, err := watchEnd(host.PID())
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-enter:
			host.PowerCut()
			host.Boot()
			ended, err = watchEnd(host.PID())
			fmt.Fprintln(out, "The power was cut. The host has booted again.")
		case <-ended:
			ended = nil
			fmt.Fprintln(out, "The host has ended by itself. Press Enter to boot it again.")
		}
	}
	return err
}

// watchEnd returns a channel that is closed when the process ends.
func watchEnd(pid int) (<-chan struct{}, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watching the host: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer func() { _ = unix.Close(process) }()
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, -1) //nolint:gosec // G115: a descriptor is small
			if n > 0 {
				close(ended)
			}
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ended, nil
}
