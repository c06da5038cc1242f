//go:build linux

// Package play_test starts a Linux host to play with: `make host`.
package play_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-dev/windlass/test/hosts"
)

// from and to are the versions of the stand-ins on the host, and beside them.
const from, to = "v1.35.4", "v1.36.3"

// TestPlay keeps a host for as long as it is not interrupted. The files for logging in, and the binaries' digests, stand in the folder that
// WINDLASS_HOST names.
func TestPlay(t *testing.T) {
	folder := os.Getenv("WINDLASS_HOST")
	if folder == "" {
		t.Skip("set WINDLASS_HOST to a folder, or run `make host`")
	}
	files := map[string][]byte{
		"/etc/systemd/system/kubelet.service": []byte("[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"),
		"/etc/kubernetes/kubelet.conf":        []byte("clusters: []\n"),
		"/var/lib/kubelet/kubeadm-flags.env":  []byte("KUBELET_KUBEADM_ARGS=\"\"\n"),
	}
	for name, content := range standIn(t, from) {
		files["/usr/bin/"+name] = content
	}
	var digests []string
	for name, content := range standIn(t, to) {
		path := to + "/linux/amd64/" + name
		files["/opt/binaries/"+path] = content
		digests = append(digests, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), path))
	}
	slices.Sort(digests)
	host := hosts.Start(t, hosts.Options{Name: "play", Files: files, Enable: []string{"kubelet"}})
	for name, content := range map[string][]byte{
		"id": host.Key("root"), "known_hosts": append(host.KnownHosts(), '\n'), "SHA256SUMS": []byte(strings.Join(digests, "")),
	} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := os.Getenv("WINDLASS_HOST_SHOWN")
	fmt.Fprintf(os.Stderr, `
A Linux host with stand-ins for kubeadm and the kubelet, %[1]s, runs until you interrupt this (^C). In another terminal:

  bin/windlass updater kubeadm run --host %[2]s --to %[3]s --identity %[4]s/id --known-hosts %[4]s/known_hosts \
    --binaries-folder /opt/binaries --digests %[4]s/SHA256SUMS --no-drain --dry-run

`, from, host.Address(), to, shown)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	<-interrupted
}

func standIn(t *testing.T, version string) map[string][]byte {
	t.Helper()
	programs, err := hosts.StandIn(version)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}
