//go:build linux

package node_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/node"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestMain(m *testing.M) {
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

// TestNodesReachEachOther has a network of its own, which begins as one that forwards nothing.
// Nodes reach each other there, also after a boot. The machine is no router afterwards.
func TestNodesReachEachOther(t *testing.T) {
	t.Parallel()
	hosts.Require(t)
	// The thread ends with the test, and takes the network along.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	const forward = "/proc/sys/net/ipv4/ip_forward"
	if err := os.WriteFile(forward, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if err := node.AllowWatches(); err != nil {
		t.Fatal(err)
	}
	options := node.Options{Store: kube.Store{Dir: "/srv/store"}}.Host()
	options.Enable = nil
	a, b := hosts.Start(t, options), hosts.Start(t, options)
	a.Boot()
	for _, pair := range [][2]*hosts.Host{{a, b}, {b, a}} {
		script := "timeout 60 bash -c 'exec 3<>/dev/tcp/" + pair[1].Address() + "/22'"
		if got, err := pair[0].Run(t.Context(), script); err != nil {
			t.Errorf("%s: %v: %s", script, err, got)
		}
	}
	if got, err := os.ReadFile(forward); err != nil || string(got) != "0\n" {
		t.Errorf("the machine forwards packets of all networks: %q, %v", got, err)
	}
}

func TestEachBootPreparesTheHost(t *testing.T) {
	t.Parallel()
	hosts.Require(t)
	built, err := programs.BuildRuntime()
	if err != nil {
		t.Fatal(err)
	}
	const runtime = "/usr/local/bin/windlass-cri"
	options := node.Options{
		Name: "a", Runtime: runtime,
		Store: kube.Store{Dir: "/srv/store"}, Version: version.MustParse("v1.35.4"),
	}.Host()
	options.Enable = []string{"containerd"}
	if options.Files[runtime], err = os.ReadFile(built); err != nil {
		t.Fatal(err)
	}
	h := hosts.Start(t, options)
	for range 2 {
		h.MustRun("systemctl restart containerd")
		for script, want := range map[string]string{
			"cat /proc/sys/net/ipv4/ip_forward":                            "1",
			"cat /sys/fs/cgroup/cgroup.controllers":                        "cpuset cpu io memory hugetlb pids",
			"stat -f -c %T /sys/fs/cgroup":                                 "cgroup2fs",
			"echo 7 >/proc/sys/net/netfilter/nf_conntrack_max && echo yes": "yes",
			"grep -c ' /sys/fs/cgroup' /proc/self/mountinfo":               "2",
			"grep -c '^nameserver 10' /etc/resolv.conf":                    "1",
			"readlink /usr/bin/kubectl":                                    "/srv/store/bin/v1.35.4/kubectl",
		} {
			got, err := h.Run(t.Context(), script)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: %q, want %q (%v)\n%s", script, got, want, err, h.Journal("containerd"))
			}
		}
		h.Boot()
	}
}
