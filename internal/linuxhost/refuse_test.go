package linuxhost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEtcdUnknown: a host that cannot ask etcd is not told to remove a member.
func TestEtcdUnknown(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]Reason{
		"Error: open /etc/kubernetes/pki/etcd/ca.crt: no such file or directory": EtcdUnknown,
		"there is no running container etcd on the host":                         EtcdUnknown,
		"https://10.0.0.9:2379 is unhealthy: refused\nError: unhealthy cluster":  EtcdUnhealthy,
	} {
		s := newSandbox(t)
		s.write(t, "/stand-in/etcdctl", "#!/bin/bash\ncat "+s.root+"/told >&2\nexit 1\n")
		s.write(t, "/told", told+"\n")
		p := s.attempt(t, s.goal(t, "v1.36.3"), "first")
		if p.Failure == nil || p.Failure.Reason != want {
			t.Fatalf("%+v, want %s", p, want)
		}
		first, _, _ := strings.Cut(told, "\n")
		removes := strings.Contains(p.Failure.Message, "remove")
		if removes != (want == EtcdUnhealthy) || !strings.Contains(p.Failure.Message, first) {
			t.Errorf("the message is %q", p.Failure.Message)
		}
	}
}

// TestOtherCertificates: a cluster whose certificates are elsewhere is refused before anything is
// done, because no step would find them.
func TestOtherCertificates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dir  string
		want Reason
	}{
		{"/srv/pki", ConfigUnsupported},
		{"/etc/kubernetes/pki/other", ConfigUnsupported},
		{"/etc/kubernetes/pki", ""},
		{`"/etc/kubernetes/pki/"`, ""},
	} {
		s := newSandbox(t)
		s.write(t, "/cluster", "v1.35.4\ncertificatesDir: "+test.dir+"\n")
		s.write(t, "/kubeadm.does", kubeadmSucceeds)
		p := s.attempt(t, s.goal(t, "v1.36.3"), "first")
		if test.want == "" {
			if p.Failure != nil {
				t.Errorf("%s: %+v", test.dir, p)
			}
			continue
		}
		if p.Failure == nil || p.Failure.Reason != test.want || s.job != (Job{}) {
			t.Errorf("%s: %+v, after %+v", test.dir, p, s.job)
		}
	}
}

// TestCopiesAreNotMixed: the copy of a run that nobody has undone ends the next run before kubeadm.
func TestCopiesAreNotMixed(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		"/etc/kubernetes/kubelet.conf":          "new\n",
		StateFolder + "/keep/before-kubeadm/an": "old\n",
	}, map[string]string{"kubeadm": `touch "${0%/*}/ran"` + "\n"})
	action, _ := upgradeStep(h.goal, Facts{}, "").Action.(Run)
	if printed, exit := h.run(t, action.Script); exit == 0 {
		t.Errorf("it succeeds, and prints %q", printed)
	}
	left, err := filepath.Glob(h.root + StateFolder + "/keep/before-kubeadm/*")
	if err != nil || len(left) != 1 {
		t.Errorf("%v; the copy has %q", err, left)
	}
	if _, err := os.Stat(h.root + "/bin/ran"); err == nil {
		t.Error("kubeadm ran")
	}
}
