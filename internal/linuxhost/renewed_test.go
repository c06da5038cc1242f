package linuxhost

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"
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

// TestRenewedAfterACut: kubeadm is killed before it has written the last manifest. Certificates that
// a person renews afterwards stay: those from before kubeadm began may have expired.
func TestRenewedAfterACut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// later is how long before the present kubeadm was cut short; 0 if the host tells it.
		later time.Duration
		does  string
		want  string
	}{
		"by a person": {later: 2 * time.Minute, want: "renewed key"},
		"by kubeadm":  {want: "first key"},
		"by a kubeadm that runs for minutes": {want: "first key",
			does: "; touch -d '5 minutes ago' ." + kept + "/before-kubeadm/alive; /bin/sleep 0.5"},
		"by a person, and one is torn": {
			later: 2 * time.Minute, does: "; echo metadata: >." + apiServer, want: "first key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := renewing(t, test.does+"; kill -9 $PPID; exit 1")
			g := s.goal(t, "v1.36.3")
			if s.attempt(t, g, "first"); s.job.State != JobVanished {
				t.Fatalf("kubeadm was not cut short: %+v", s.job)
			}
			if test.later > 0 {
				cut := time.Now().Add(-test.later)
				if err := os.Chtimes(s.root+kept+"/before-kubeadm/alive", cut, cut); err != nil {
					t.Fatal(err)
				}
			}
			s.mustHave(t, g, test.want)
		})
	}
}

// TestIdentityAfterACut: a power cut damages the kubelet's kubeconfig, which kubeadm was writing. The
// copy tells whose host it is.
func TestIdentityAfterACut(t *testing.T) {
	t.Parallel()
	const kubelet = "/etc/kubernetes/kubelet.conf"
	certificate := base64.StdEncoding.EncodeToString(
		[]byte("-----BEGIN CERTIFICATE-----\nof the node\n-----END CERTIFICATE-----\n"))
	for name, damage := range map[string]string{
		"empty": ": >." + kubelet, "half": "sed -i '$d' ." + kubelet,
		"half of a certificate": "truncate -s -30 ." + kubelet,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, kubelet, "    certificate-authority-data: "+certificate+
				"\n    client-certificate-data: "+certificate+"\n")
			g := s.goal(t, "v1.36.3")
			want, _ := s.run(t, IdentityScript(g))
			s.write(t, "/kubeadm.does", damage+"; cut")
			s.mustCut(t, g, "first")
			if got, _ := s.run(t, IdentityScript(g)); got != want {
				t.Errorf("the host's identity is %q, want %q", got, want)
			}
			if err := os.Remove(s.root + kept + "/before-kubeadm" + s.root + kubelet); err != nil {
				t.Fatal(err)
			}
			if got, _ := s.run(t, IdentityScript(g)); got == want {
				t.Error("without the copy it is the same")
			}
		})
	}
}

// TestCertificatesRenewed: certificates that a person renews between two attempts are those that
// come back.
func TestCertificatesRenewed(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/kubeadm.does", "echo expired; exit 1")
	s.mustFail(t, g, "first")
	s.write(t, serverKey, "renewed key\n")
	s.write(t, "/kubeadm.does", "cut")
	s.mustCut(t, g, "second")
	s.write(t, "/kubeadm.does", needsKey("renewed")+kubeadmSucceeds)
	s.mustReach(t, g, "third")
}
