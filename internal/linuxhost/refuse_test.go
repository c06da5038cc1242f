package linuxhost

import (
	"errors"
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
// done, because no step would find them. A link is no other place.
func TestOtherCertificates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dir  string // %s is the host's folder /etc/kubernetes.
		want Reason
		runs bool
	}{
		{dir: "/srv/pki", want: ConfigUnsupported},
		{dir: "%s/pki/other", want: ConfigUnsupported},
		{dir: "%s/pki"},
		{dir: `"%s/pki/"`},
		{dir: "%s/ssl", runs: true}, // As kubespray has it.
	} {
		s := newSandbox(t)
		folder := s.root + "/etc/kubernetes"
		err := errors.Join(
			os.Mkdir(folder+"/pki/other", 0o700), os.Rename(folder+"/pki", folder+"/ssl"),
			os.Symlink("ssl", folder+"/pki"),
		)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.ReplaceAll(test.dir, "%s", folder)
		s.write(t, "/cluster", "v1.35.4\ncertificatesDir: "+dir+"\n")
		if test.want == "" {
			s.mustComeTo(t, s.goal(t, "v1.36.3"), "first", FetchPrefix+"kubeadm")
			if test.runs {
				s.mustCut(t, s.goal(t, "v1.36.3"), "first")
				s.write(t, "/kubeadm.does", kubeadmSucceeds)
				s.mustReach(t, s.goal(t, "v1.36.3"), "second")
			}
			continue
		}
		p := s.next(t, s.goal(t, "v1.36.3"), "first")
		if p.Failure == nil || p.Failure.Reason != test.want {
			t.Errorf("%s: %+v, want %s", test.dir, p, test.want)
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
