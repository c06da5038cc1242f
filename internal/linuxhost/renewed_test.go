package linuxhost

import (
	"encoding/base64"
	"strings"
	"testing"
)

const (
	adminConf = "/etc/kubernetes/admin.conf"
	scheduler = "/etc/kubernetes/manifests/kube-scheduler.yaml"
)

// pemOf is a key in the form in which kubeadm writes it.
func pemOf(key string) string {
	return "-----BEGIN EC PRIVATE KEY-----\n" + key + "\n-----END EC PRIVATE KEY-----\n"
}

// adminWith is a kubeconfig with a key.
func adminWith(key string) string {
	return "kind: Config\n    client-key-data: " +
		base64.StdEncoding.EncodeToString([]byte(pemOf(key))) + "\n"
}

// renews is what kubeadm does until it writes the last manifest.
const (
	renews = kubeadmSucceeds + "; cp renewed.key ." + serverKey + "; cp renewed.conf ." + adminConf
	last   = "; sed s/35.4/36.3/ ." + scheduler + " >s; mv s ." + scheduler
)

// renewing returns a host whose certificates kubeadm renews, and then does more. An empty file is
// among them.
func renewing(t *testing.T, more string) *sandbox {
	t.Helper()
	s := newSandbox(t)
	s.write(t, scheduler, "image: kube-scheduler:v1.35.4\nstatus: {}\n")
	s.write(t, serverKey, pemOf("first key"))
	s.write(t, adminConf, adminWith("first key"))
	s.write(t, "/etc/kubernetes/pki/index.txt", "")
	s.write(t, "/renewed.key", pemOf("renewed key"))
	s.write(t, "/renewed.conf", adminWith("renewed key"))
	s.write(t, "/kubeadm.does", renews+more)
	return s
}

// mustHave checks the key that the next run of kubeadm finds.
func (s *sandbox) mustHave(t *testing.T, g Goal, key string) {
	t.Helper()
	s.write(t, "/kubeadm.does", "cp ."+serverKey+" seen.key; cp ."+adminConf+" seen.conf; "+
		kubeadmSucceeds)
	s.mustReach(t, g, "second")
	if got := s.read("/seen.key"); got != pemOf(key) {
		t.Errorf("the next run has the key %q, want %q", got, pemOf(key))
	}
	if got := s.read("/seen.conf"); got != adminWith(key) {
		t.Errorf("the next run has the kubeconfig %q, want %q", got, adminWith(key))
	}
}

// TestUndoGoesOn: a full disk ends the undo when the damaged file is back. The next attempt puts
// the certificates back too: one that is whole may be beside another one's key.
func TestUndoGoesOn(t *testing.T) {
	t.Parallel()
	s := renewing(t, last+"; echo metadata: >."+apiServer+"; exit 1")
	s.fillDisk(t)
	g := s.goal(t, "v1.36.3")
	if p := s.attempt(t, g, "first"); p.Failure == nil || p.Failure.Reason != DiskFull {
		t.Fatalf("%+v", p)
	}
	if !strings.Contains(s.read(apiServer), "status: {}") {
		t.Fatal("the damaged manifest is not back")
	}
	s.makeRoom(t)
	s.mustHave(t, g, "first key")
}

// TestKubeadmFailsAfterCertificates: kubeadm that fails or is killed after it has written the last
// manifest leaves the certificates that it has renewed, because its next run renews none. The
// failure has kubeadm's error. If one file is damaged, all of them come back.
func TestKubeadmFailsAfterCertificates(t *testing.T) {
	t.Parallel()
	const fails = "; : >." + conf + "; echo 'error: no addon'; echo 'use --v=5'; exit 1"
	const killed = "; kill -9 $PPID; exit 1"
	for name, test := range map[string]struct {
		does string
		back bool
	}{
		"it fails":                   {does: last + fails},
		"it is killed":               {does: last + killed},
		"before the last manifest":   {does: fails, back: true},
		"half of the last manifest":  {does: "; echo kind: >." + scheduler + fails, back: true},
		"half of a key":              {does: last + "; sed -i '$d' ." + serverKey + fails, back: true},
		"half of a key after a kill": {does: last + "; sed -i '$d' ." + serverKey + killed, back: true},
		"half of a kubeconfig": {does: last + "; truncate -s -9 ." + adminConf + fails,
			back: true},
		"a kubeconfig without its key": {does: last + "; sed -i '$d' ." + adminConf + fails, back: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := renewing(t, test.does)
			g := s.goal(t, "v1.36.3")
			p := s.attempt(t, g, "first")
			if p.Failure != nil && !strings.Contains(p.Failure.Message, "error: no addon; use --v=5") {
				t.Errorf("the failure is %q", p.Failure.Message)
			}
			want := "renewed key"
			if test.back {
				want = "first key"
			}
			s.mustHave(t, g, want)
		})
	}
}
