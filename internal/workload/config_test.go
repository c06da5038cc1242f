package workload_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestConfig gives what streams need, and not to whom a kubeconfig may not lead.
func TestConfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config, err := w.nodes.Config(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host == "" || config.Timeout != 0 || !slices.Contains(config.NextProtos, "http/1.1") {
		t.Errorf("the API server is %q, a stream's limit %s, the protocols %v", config.Host, config.Timeout, config.NextProtos)
	}
	if _, err := w.nodes.Config(t.Context(), types.NamespacedName{Namespace: "default", Name: "nobody"}); err == nil {
		t.Error("a cluster that is not there has a configuration")
	}
}

// TestGetProved: authorities come with a Node only if the server that answered has proved itself
// under them, and knows who asks.
func TestGetProved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	own, foreign := encode(w.server.Certificate().Raw), foreignAuthority(t)
	check := func(name, node string, authorities []byte, wantProof bool) {
		t.Helper()
		for range 2 { // The second one knows that the first has failed.
			found, got, err := w.nodes.GetProved(t.Context(), cluster, node)
			if !bytes.Equal(got, authorities) || (err == nil) != wantProof || (found != nil) != wantProof {
				t.Errorf("%s: the Node is %v, the authorities are %q: %v", name, found, got, err)
			}
		}
	}
	renew := func(edit func(*clientcmdapi.Config)) {
		t.Helper()
		w.putSecret(t, cluster, w.server.kubeconfig(edit))
		w.now = w.now.Add(time.Hour)
	}
	check("its own server", "a", own, true)
	check("no such Node", "b", own, false)
	renew(func(c *clientcmdapi.Config) { c.AuthInfos["u"].Token = "another" })
	check("another token", "a", own, false)
	renew(func(c *clientcmdapi.Config) { c.Clusters["c"].CertificateAuthorityData = foreign })
	check("a copied CA", "a", foreign, false)
	w.server.mu.Lock()
	w.server.token = ""
	w.server.mu.Unlock()
	renew(nil)
	check("no credentials", "a", own, false)
	w.server.Close()
	renew(nil)
	check("no server", "a", own, false)
	all := client.InNamespace(cluster.Namespace)
	if err := w.management.DeleteAllOf(t.Context(), &corev1.Secret{}, all); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	check("no kubeconfig", "a", nil, false)
}

func encode(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// foreignAuthority is a certificate authority of another cluster, as anybody can copy it.
func foreignAuthority(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return encode(certificate)
}
