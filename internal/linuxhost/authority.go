package linuxhost

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// authorities are the CAs of a cluster that kubeadm made, and what each of them signs on a control
// plane host, as paths below its folder of certificates.
var authorities = []struct {
	name   string
	leaves []string
}{
	{"ca", []string{"apiserver", "apiserver-kubelet-client"}},
	{"front-proxy-ca", []string{"front-proxy-client"}},
	{"etcd/ca", []string{
		"apiserver-etcd-client", "etcd/server", "etcd/peer", "etcd/healthcheck-client",
	}},
}

// The versions of kubeadm that sign super-admin.conf whether they can or not.
var (
	firstSuperAdmin = version.MustParse("v1.29.0")
	fixedSuperAdmin = version.MustParse("v1.29.5")
)

// refuseAuthorities refuses a control plane host that lacks the key of a CA, if kubeadm upgrade
// would fail for that after it has changed something. kubeadm renews no certificate of such a CA,
// but it looks at each, and ends if one is not there, or not signed by the CA.
func refuseAuthorities(g Goal, f Facts) *Failure {
	if f.Begun || f.Installed == g.Version {
		return nil
	}
	files := map[string]string{}
	for _, file := range f.External {
		files[file.Path] = file.Content
	}
	_, external := files["ca"]
	if external && computeVerb(g, f) == verbApply && signsSuperAdmin(g.Version) {
		return newFailure(ConfigUnsupported, KubeadmUpgrade, "the host has no "+
			"/etc/kubernetes/pki/ca.key, because the CA of the cluster is an external one. kubeadm %s "+
			"needs it to sign super-admin.conf, and ends when the control plane is new. Nothing was "+
			"changed. Fix: go to %s or later", g.Version, fixedSuperAdmin)
	}
	for _, authority := range authorities {
		ca, external := files[authority.name]
		if !external {
			continue
		}
		for _, leaf := range authority.leaves {
			if err := checkSigned(ca, files[leaf], f.Now); err != nil {
				return newFailure(ConfigUnsupported, KubeadmUpgrade, "the host has no key of the "+
					"CA /etc/kubernetes/pki/%s.crt, and kubeadm upgrade ends in the middle, because %s "+
					"there %v. Nothing was changed. Fix: have the CA sign it", authority.name, leaf, err)
			}
		}
	}
	return nil
}

// signsSuperAdmin reports whether kubeadm upgrade apply of a version always signs super-admin.conf.
func signsSuperAdmin(v version.Version) bool {
	return version.Compare(v, firstSuperAdmin) != version.Less &&
		version.Compare(v, fixedSuperAdmin) == version.Less
}

// checkSigned checks that the first certificate of a PEM file is signed by the first one of a CA's,
// as kubeadm does. The host prints unreadContent for a certificate that it lacks, or whose key it
// lacks.
func checkSigned(ca, leaf string, now time.Time) error {
	if leaf == unreadContent {
		return errors.New("has no certificate or no key")
	}
	roots, err := ParseCertificates([]byte(ca))
	chain, leafErr := ParseCertificates([]byte(leaf))
	if err = errors.Join(err, leafErr); err != nil || len(roots) == 0 || len(chain) == 0 {
		return errors.New("cannot be read")
	}
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	parse := func(der []byte) *x509.Certificate {
		parsed, _ := x509.ParseCertificate(der) // ParseCertificates has parsed it.
		return parsed
	}
	options.Roots.AddCert(parse(roots[0]))
	for _, der := range chain[1:] {
		options.Intermediates.AddCert(parse(der))
	}
	if _, err := parse(chain[0]).Verify(options); err != nil {
		return fmt.Errorf("is not valid: %w", err)
	}
	return nil
}
