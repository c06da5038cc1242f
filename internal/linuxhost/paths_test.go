package linuxhost_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

func TestCheckPath(t *testing.T) {
	t.Parallel()
	wide := []string{"/etc", "/opt", "/var", "/usr", "/bin", "/run", "/tmp", "/dev", "/proc", "/sys", "/runner"}
	for path, want := range map[string]bool{
		"/etc/a": true, "/opt/x y/z": true, "/etc/kubernetes/patches/etcd.json": true, "/etc/kubernetes/admission.yaml": true,
		"/etc/kubernetes/x/a.conf": false, "/etc/kubernetes/kubelet.conf.d/10.yaml": false,
		"/var/lib/kubelet/credential.yaml": true, "/runner/a": true, "/usr/local/bin/kubelet": true, "/usr/bin/helper": true, "/etc/kubernetes/pki2/a": true,
		"": false, "/": false, "etc/a": false, "/etc/../etc/a": false, "/etc/./a": false, "/etc//a": false, "//etc/a": false, "/etc/a/": false, "/etc/a\nb": false,
		"/etc/a\x00b": false, "/etc/{{ a }}": false, "/etc/a.": false, "/etc/a. /b": false, "/etc/a /b": false, "/etc/ a": false, "/etc/...": false, "/etc/-rf": false,
		"/etc/é": false, "/etc/\xff": false, "/etc/a\u202eb": false, "/etc/$(id)": false, "/etc/a;b": false, "/etc/.windlass-new": false, "/home/a": false, "/etcetera/a": false,
		"/etc/kubernetes/pki/ca.crt": false, "/etc/kubernetes/pki": false, "/etc/kubernetes/PKI/ca.crt": false, "/etc/Kubernetes/Manifests/x": false,
		"/etc/kubernetes/manifests/etcd.yaml": false, "/etc/kubernetes/kubelet.conf": false, "/etc/kubernetes/Admin.CONF": false,
		"/etc/kubernetes/tmp/x": false, "/var/lib/kubelet/config.yaml": false, "/var/lib/kubelet/instance-config.yaml": false,
		"/var/lib/kubelet/kubeadm-flags.env": false, "/var/lib/kubelet/pki/x": false, "/run/x": false, "/var/run/x": false, "/tmp/x": false,
		"/var/lib/windlass/op/x": false, "/var/lib/etcd/x": false, "/proc/x": false, "/sys/x": false, "/dev/x": false, "/usr/bin/kubelet": false, "/usr/bin/kubeadm": false,
	} {
		if err := linuxhost.CheckPath(path, wide, "/usr/bin"); (err == nil) != want {
			t.Errorf("%q: allowed is %t, want %t: %v", path, err == nil, want, err)
		}
	}
	for _, path := range []string{"/etc/cron.d/x", "/etc/sudoers.d/x", "/usr/bin/bash", "/root/.ssh/authorized_keys", "/etc/kubernetes2/x", "/etc/systemd/system/a.service"} {
		if err := linuxhost.CheckPath(path, linuxhost.DefaultPrefixes(), "/usr/bin"); err == nil {
			t.Errorf("%s is allowed by default", path)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]bool{
		"/etc/kubernetes": true, "/opt": true, "/etc/systemd/system/containerd.service.d": true, "/etc/a.conf": true,
		"": false, "/": false, "/etc/": false, "etc": false, "/etc/..": false, "/etc/../x": false, "//etc": false, "/etc/.": false, "/etc/a.": false, "/etc/a\n": false,
	} {
		if err := linuxhost.CheckPrefix(prefix); (err == nil) != want {
			t.Errorf("%q: allowed is %t, want %t: %v", prefix, err == nil, want, err)
		}
	}
}
