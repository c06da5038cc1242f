//go:build linux

package node_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/node"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestEachBootPreparesTheHost uses a runtime that ends at once, so that the unit's steps run more than once in a boot.
func TestEachBootPreparesTheHost(t *testing.T) {
	t.Parallel()
	options := node.Options{
		Name: "a", Store: kube.Store{Dir: "/srv/store"}, Version: version.MustParse("v1.35.4"), Runtime: "/bin/true",
	}.Host()
	options.Enable = []string{"containerd"}
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
			"readlink /usr/bin/kubeadm /usr/bin/kubectl":                   "/srv/store/bin/v1.35.4/kubeadm\n/srv/store/bin/v1.35.4/kubectl",
		} {
			got, err := h.Run(t.Context(), script)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: %q, want %q (%v)\n%s", script, got, want, err, h.Journal("containerd"))
			}
		}
		h.Boot()
	}
}
