//go:build linux

package hosts_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesGroup is the group of kubelets.
const nodesGroup = "system:nodes"

// authority is a CA that signs for kubelets.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// pem and keyPEM are the same as files.
	pem, keyPEM []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubelets"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{certificate: template}
	a.pem, a.keyPEM = a.sign(t, template)
	block, _ := pem.Decode(a.pem)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	a.certificate = certificate
	return a
}

// kubelet signs a certificate for the kubelet of a node.
func (a *authority) kubelet(t *testing.T, node string) (certificate, key []byte) {
	t.Helper()
	return a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{nodesGroup}},
		NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// sign signs a certificate for a new key. The first one is the authority's own.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (certificate, key []byte) {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a.key == nil {
		a.key = made
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, made.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// trust has the API server trust the authority, too: it reads the file again when it changes.
func (p *plane) trust(t *testing.T, file string) {
	t.Helper()
	others, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, slices.Concat(others, p.ca.pem), 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitTrust waits until kubelets are let in. Nothing tells when that is.
func (p *plane) awaitTrust(ctx context.Context, t *testing.T) {
	t.Helper()
	certificate, key := p.ca.kubelet(t, "nobody")
	config := rest.AnonymousClientConfig(p.RESTConfig())
	config.CertData, config.KeyData = certificate, key
	c, err := client.New(config, client.Options{Scheme: p.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for {
		err := c.List(ctx, &corev1.NodeList{})
		if err == nil {
			return
		}
		if !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waiting until kubelets are let in: %v: %v", context.Cause(ctx), err)
		}
	}
}

// clusterMaxPods is in the cluster's kubelet-config, and in no host's configuration before kubeadm writes it there.
const clusterMaxPods = 77

// kubeletConfig is a KubeletConfiguration as kubeadm writes it.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
`

// makeCluster makes what "kubeadm init" leaves in a cluster, as far as its nodes need it.
func (p *plane) makeCluster(ctx context.Context, t *testing.T) {
	t.Helper()
	system := func(name string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Data: data}
	}
	p.create(ctx, t,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e:nodes"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: nodesGroup}},
		},
		system("kubeadm-config", map[string]string{"ClusterConfiguration": fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: e2e
controlPlaneEndpoint: 127.0.0.1:%d
kubernetesVersion: %s
networking: {dnsDomain: cluster.local, serviceSubnet: 10.96.0.0/12}
`, p.port, p.to.version)}),
		system("kubelet-config", map[string]string{"kubelet": kubeletConfig + fmt.Sprintf("maxPods: %d\n", clusterMaxPods)}),
	)
}
