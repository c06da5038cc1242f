package linuxhost

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// authority is a CA that signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority makes a CA.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.certificate, err = x509.ParseCertificate(a.sign(t, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sign signs a certificate that is valid for a time; the first one is the CA's own.
func (a *authority) sign(t *testing.T, valid time.Duration) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-2 * time.Hour),
		NotAfter: time.Now().Add(valid), IsCA: a.certificate == nil, BasicConstraintsValid: true,
	}
	parent := a.certificate
	if parent == nil {
		parent = template
	} else {
		template.Subject.CommonName = "leaf" // It has the key of the CA.
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// pemOfCertificate is a certificate as files have it.
func pemOfCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestExternalAuthority: a control plane host without the key of a CA is refused before anything is
// changed, if kubeadm would sign with it, or does not accept a certificate that it signed.
func TestExternalAuthority(t *testing.T) {
	t.Parallel()
	const pki = "/etc/kubernetes/pki/"
	for name, test := range map[string]struct {
		to    string
		spoil func(*sandbox, *authority)
		want  string
	}{
		"kubeadm signs super-admin.conf": {to: "v1.29.4", want: "kubeadm v1.29.4 needs it to sign super-admin.conf"},
		"whether or not it is there": {
			to:    "v1.29.0",
			spoil: func(s *sandbox, _ *authority) { s.write(t, "/etc/kubernetes/super-admin.conf", "x") },
			want:  "Fix: go to v1.29.5 or later",
		},
		"kubeadm leaves it out":          {to: "v1.29.5"},
		"the key is there":               {to: "v1.29.4", spoil: func(s *sandbox, _ *authority) { s.write(t, pki+"ca.key", "x") }},
		"another machine has applied it": {to: "v1.29.4", spoil: func(s *sandbox, _ *authority) { s.write(t, "/cluster", "v1.29.4\n") }},
		"a certificate without its key": {
			to:    "v1.29.5",
			spoil: func(s *sandbox, _ *authority) { s.remove(t, pki+"apiserver-kubelet-client.key") },
			want:  "apiserver-kubelet-client there has no certificate or no key",
		},
		"no certificate": {
			to: "v1.29.5", spoil: func(s *sandbox, _ *authority) { s.remove(t, pki+"etcd/healthcheck-client.crt") },
			want: "CA /etc/kubernetes/pki/etcd/ca.crt, and kubeadm upgrade ends in the middle, because etcd/healthcheck-client there has no",
		},
		"of another CA": {
			to: "v1.29.5", spoil: func(s *sandbox, _ *authority) {
				s.write(t, pki+"front-proxy-client.crt", pemOfCertificate(newAuthority(t).sign(t, time.Hour)))
			},
			want: "front-proxy-client there is not valid: x509: certificate signed by unknown authority",
		},
		"expired": {
			to: "v1.29.5", spoil: func(s *sandbox, a *authority) {
				s.write(t, pki+"apiserver.crt", pemOfCertificate(a.sign(t, -time.Hour)))
			},
			want: "apiserver there is not valid: x509: certificate has expired",
		},
		"what is no certificate": {
			to: "v1.29.5", spoil: func(s *sandbox, _ *authority) { s.write(t, pki+"apiserver.crt", "x") },
			want: "apiserver there cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := newSandbox(t), newAuthority(t)
			s.write(t, "/bin/kubelet", "#!/bin/bash\necho Kubernetes v1.28.9\n")
			s.write(t, "/cluster", "v1.28.9\n")
			s.write(t, apiServer, "image: kube-apiserver:v1.28.9\nstatus: {}\n")
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			folder := "/linux/" + runtime.GOARCH + "/"
			for _, program := range []string{"kubeadm", "kubelet"} {
				content := s.read("/binaries/v1.36.3" + folder + program)
				s.write(t, "/binaries/"+test.to+folder+program, strings.ReplaceAll(content, "v1.36.3", test.to))
			}
			s.remove(t, pki+"ca.key")
			s.remove(t, pki+"etcd/ca.key")
			for _, ca := range authorities {
				s.write(t, pki+ca.name+".crt", pemOfCertificate(a.certificate.Raw))
				for _, leaf := range ca.leaves {
					s.write(t, pki+leaf+".crt", pemOfCertificate(a.sign(t, time.Hour)))
					s.write(t, pki+leaf+".key", "key\n")
				}
			}
			if test.spoil != nil {
				test.spoil(s, a)
			}
			g := s.goal(t, test.to)
			if test.want == "" {
				s.mustReach(t, g, "1")
				return
			}
			p := s.attempt(t, g, "1")
			if p.Failure == nil || p.Failure.Reason != ConfigUnsupported || s.job != (Job{}) ||
				!strings.Contains(p.Failure.Message, test.want) {
				t.Errorf("%+v, want %s", p.Failure, test.want)
			}
		})
	}
}

// remove removes a file.
func (s *sandbox) remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(s.root + path); err != nil {
		t.Fatal(err)
	}
}
