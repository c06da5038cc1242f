//go:build linux

package linuxhost_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
)

// TestFilesThatLeadElsewhere has links and folders on the host that lead a write to another place. Nothing is written there.
func TestFilesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linuxhost.Kubeadm, false)
	w.upgrade.Goal.Drain = false
	for name, tt := range map[string]struct{ prepare, acl, path string }{
		"a folder that is a link":        {prepare: "mkdir -p /etc/cron.d; ln -s /etc/cron.d /etc/kubernetes/evil", path: "/etc/kubernetes/evil/x"},
		"a link further up":              {prepare: "ln -s /etc /etc/kubernetes/up", path: "/etc/kubernetes/up/cron.d/x"},
		"a file that is a link":          {prepare: "mkdir /etc/kubernetes/a; ln -s /etc/cron.d/x /etc/kubernetes/a/x", path: "/etc/kubernetes/a/x"},
		"a folder in place of the file":  {prepare: "mkdir -p /etc/kubernetes/a/x", path: "/etc/kubernetes/a/x"},
		"a folder of somebody else":      {prepare: "mkdir /etc/kubernetes/a; chown nosudo /etc/kubernetes/a", path: "/etc/kubernetes/a/x"},
		"a folder that all can write to": {prepare: "mkdir /etc/kubernetes/a; chmod 1777 /etc/kubernetes/a", path: "/etc/kubernetes/a/b/x"},
		"a link to a protected folder":   {prepare: "mkdir -p /etc/kubernetes/manifests; ln -s /etc/kubernetes/manifests /etc/kubernetes/a", path: "/etc/kubernetes/a/x"},
		"a folder of a group":            {prepare: "mkdir -m 775 /etc/kubernetes/a", path: "/etc/kubernetes/a/x"},
		// Its mode is the same: where an ACL exists, the bits of the group are its mask.
		"a folder with an ACL":       {prepare: "mkdir -m 775 /etc/kubernetes/a", acl: "access", path: "/etc/kubernetes/a/x"},
		"further down":               {prepare: "mkdir /etc/kubernetes/a", acl: "access", path: "/etc/kubernetes/a/b/x"},
		"what is created has an ACL": {prepare: "mkdir -m 755 /etc/kubernetes/a", acl: "default", path: "/etc/kubernetes/a/x"},
		"as above, further down":     {prepare: "mkdir -m 755 /etc/kubernetes/a", acl: "default", path: "/etc/kubernetes/a/b/x"},
	} {
		w.host.MustRun("rm -rf /etc/kubernetes/a /etc/kubernetes/up /etc/kubernetes/evil; " + tt.prepare)
		if tt.acl != "" {
			setACL(t, w.host.Root()+"/etc/kubernetes/a", tt.acl, 7)
		}
		w.upgrade.Goal.Files = []linuxhost.File{{Path: tt.path, Content: []byte("* * * * * root id"), Permissions: "0600"}}
		w.upgrade.Attempt = strings.ReplaceAll(name, " ", "-")
		p := w.until(t, false, nil)
		if p.Failure == nil || p.Failure.Reason != linuxhost.FileRefused || !strings.Contains(p.Failure.Message, tt.path) {
			t.Errorf("%s: %+v", name, p)
		}
		if found := w.host.MustRun("grep -rl 'root id' /etc /usr/bin 2>/dev/null; true"); found != "" {
			t.Errorf("%s: it was written to %s", name, found)
		}
	}
}

// setACL gives a folder an ACL, or what is created in it (default): root and its group have all
// rights, and so has the user 65534 if the mask permits it.
func setACL(t *testing.T, path, kind string, mask uint16) {
	t.Helper()
	const nobody, unset = 65534, 0xffffffff
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, entry := range []struct {
		tag, rights uint16
		id          uint32
	}{{1, 7, unset}, {2, 7, nobody}, {4, 5, unset}, {0x10, mask, unset}, {0x20, 5, unset}} {
		acl = binary.LittleEndian.AppendUint16(acl, entry.tag)
		acl = binary.LittleEndian.AppendUint16(acl, entry.rights)
		acl = binary.LittleEndian.AppendUint32(acl, entry.id)
	}
	if err := unix.Setxattr(path, "system.posix_acl_"+kind, acl, 0); err != nil {
		t.Fatal(err)
	}
}

// TestFilesInAFolderWithAnACL: users may be given the right to read.
func TestFilesInAFolderWithAnACL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linuxhost.Kubeadm, false)
	w.host.MustRun("mkdir /etc/kubernetes/patches")
	for _, kind := range []string{"access", "default"} {
		setACL(t, w.host.Root()+"/etc/kubernetes/patches", kind, 5)
	}
	w.mustFinish(t)
	if mode := w.host.MustRun("stat -c %a /etc/kubernetes/patches/*"); mode != "600\n" {
		t.Errorf("the modes are %q", mode)
	}
}

// TestFilesBelowALink: root may move an allowed folder to another disk, with a link in its place.
func TestFilesBelowALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linuxhost.Kubeadm, false)
	w.host.MustRun("mkdir -p /srv/patches; ln -s /srv/patches /etc/kubernetes/patches")
	w.upgrade.Goal.Prefixes = []string{"/etc/kubernetes/patches"}
	w.mustFinish(t)
	if content, err := w.host.Read("/srv/patches/kubeletconfiguration.yaml"); err != nil || string(content) != "maxPods: 50\n" {
		t.Errorf("the file is %q, %v", content, err)
	}
}

// TestPatchesOfOthers has a patch on the host that the goal does not have: by an earlier update, in
// a folder that a later one names. Nothing is done.
func TestPatchesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linuxhost.Kubeadm, false)
	for i, name := range []string{"etcd.yaml", "a/kube-scheduler+json.json"} {
		path := "/etc/kubernetes/patches/" + name
		w.host.MustRun("rm -rf /etc/kubernetes/patches; mkdir -p $(dirname " + path + "); ln -s /etc/hostname " + path)
		w.upgrade.Attempt = strconv.Itoa(i)
		p := w.until(t, false, nil)
		if p.Failure == nil || p.Failure.Reason != linuxhost.FileRefused || p.Job.State != linuxhost.NoJob ||
			!strings.Contains(p.Failure.Message, path) {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// TestFolderOfPatchesIsMadeAnew has something in the way where kubeadm's patches are written, after
// an attempt that failed there.
func TestFolderOfPatchesIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{
		"a link":        "mkdir /srv/evil; touch /srv/evil/etcd.yaml; ln -s /srv/evil $own",
		"a patch":       "mkdir $own; touch $own/etcd.yaml",
		"a linked file": "mkdir $own; ln -s /srv/target $own/kubeletconfiguration.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, linuxhost.Kubeadm, false)
			w.failsInKubeadm(t)
			w.host.MustRun("own=" + w.ownPatches() + "; rm -rf $own; " + prepare)
			w.upgrade.Attempt = "second"
			w.mustFinish(t)
			w.mustBeKubeadms(t)
			if left := w.host.MustRun("ls -d /srv/evil/kubeletconfiguration.yaml /srv/target 2>/dev/null; true"); left != "" {
				t.Errorf("it was written to %s", left)
			}
		})
	}
}

// TestValuesOnAHost has values that a shell, sed or awk would read as more than text, in every place that a tenant or a host chooses.
func TestValuesOnAHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linuxhost.Kubeadm, true)
	const evil = `'; touch /pwned; '"$(touch /pwned)` + "`touch /pwned`" + `|\1&`
	w.upgrade.Goal.Files[0] = linuxhost.File{Path: "/etc/kubernetes/evil", Content: []byte(evil)}
	w.upgrade.Goal.Files = append(w.upgrade.Goal.Files, linuxhost.File{
		Path: "/etc/kubernetes/patches/kubeletconfiguration.yaml", Content: []byte("systemReserved:\n  cpu: " + strconv.Quote(evil)),
	})
	w.upgrade.Goal.IgnorePreflight = []string{evil}
	w.upgrade.Goal.Before = []string{"printf %s '" + strings.ReplaceAll(evil, "'", `'\''`) + "' >/var/log/evil"}
	w.mustFinish(t)
	if content, err := w.host.Read("/var/log/evil"); err != nil || string(content) != evil {
		t.Errorf("the command wrote %q, %v", content, err)
	}
	if content, err := w.host.Read(w.upgrade.Goal.Files[0].Path); err != nil || string(content) != evil {
		t.Errorf("the file is %q, %v", content, err)
	}
	if log := w.host.MustRun("cat /var/log/stand-in-kubeadm.log"); !strings.Contains(log, "--ignore-preflight-errors "+evil) {
		t.Errorf("kubeadm was run with %s", log)
	}
	if _, err := w.host.Read("/pwned"); err == nil {
		t.Error("a value was run")
	}
	if conf, err := w.host.Read("/etc/kubernetes/kubelet.conf"); err != nil || !strings.Contains(string(conf), "    server: https://10.0.0.1:6443\n") {
		t.Errorf("kubelet.conf is %q, %v", conf, err)
	}
}

// TestIdentityOfAHost reads who hosts are, and writes nothing.
func TestIdentityOfAHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linuxhost.Kubeadm, false)
	// Below the host's disk is that of the machine, on which other programs write: only paths that a host uses count.
	const written = "find /etc /opt /usr/local /var/lib/kubelet -xdev -newer /etc/hostname | sort"
	before := w.host.MustRun(written)
	result, err := w.upgrade.Host.Exec(t.Context(), port.HostCommand{Script: linuxhost.IdentityScript(w.upgrade.Goal)})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, result)
	}
	if got, err := linuxhost.ParseIdentity(string(result.Stdout)); err != nil || got.Node != "" || got.Authorities != nil {
		t.Errorf("a host without certificates is %+v, %v", got, err)
	}
	if after := w.host.MustRun(written); after != before {
		t.Errorf("there were\n%s\nand are\n%s", before, after)
	}
	authority, own := certificate(t, "kubernetes"), certificate(t, "system:node:node-m")
	for name, conf := range map[string]string{
		"files": "    certificate-authority: /etc/kubernetes/pki/ca.crt\n    client-certificate: /var/lib/kubelet/pki/own.pem\n",
		"data":  "    certificate-authority-data: " + base64.StdEncoding.EncodeToString(authority) + "\n    client-certificate-data: " + base64.StdEncoding.EncodeToString(own) + "\n",
	} {
		w.host.Write("/etc/kubernetes/kubelet.conf", []byte(conf))
		w.host.Write("/etc/kubernetes/pki/ca.crt", authority)
		w.host.Write("/var/lib/kubelet/pki/own.pem", append(own, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"...))
		result, err := w.upgrade.Host.Exec(t.Context(), port.HostCommand{Script: linuxhost.IdentityScript(w.upgrade.Goal)})
		if err != nil || strings.Contains(string(result.Stdout), base64.StdEncoding.EncodeToString([]byte("c2VjcmV0"))) {
			t.Fatalf("%v, %+v", err, result)
		}
		want, err := linuxhost.ParseCertificates(authority)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := linuxhost.ParseIdentity(string(result.Stdout)); err != nil || linuxhost.CheckIdentity(linuxhost.Identity{Node: "node-m", Authorities: want}, got) != nil {
			t.Errorf("with certificates in %s the host is %+v, %v", name, got, err)
		}
	}
}

// certificate makes a certificate in PEM.
func certificate(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
