package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/peer"
)

// Clientset has all built-in kinds of a workload cluster, with watches: for a person who checks one cluster, not for hooks.
type Clientset struct {
	kubernetes.Interface

	config *rest.Config
	http   *http.Client
}

// errUnusable stands for all errors of making a client from a kubeconfig.
var errUnusable = errors.New("check the certificates and keys of its kubeconfig (the error may quote them, so it is not shown)")

// Clientset returns clients of a cluster. It does not connect. Requests have no limit of time but their context's, answers
// the same bounds as elsewhere. The kubeconfig was checked as everywhere in this package.
func (n *Nodes) Clientset(ctx context.Context, cluster types.NamespacedName) (*Clientset, error) {
	config, err := n.clients.Config(ctx, cluster)
	if err != nil {
		return nil, newUnreachable(cluster, err)
	}
	bounds := peer.Limits{Timeout: requestTimeout, BodyBytes: maxAnswerBytes}
	bounded := peer.Bound(limitConfig(config), bounds)
	bounded.Timeout = 0
	transport, err := peer.NewAPIServerTransport(bounded, bounds)
	if err != nil {
		return nil, newUnreachable(cluster, errUnusable)
	}
	c := &Clientset{config: bounded, http: peer.NewUpgradeClient(transport, bounds)}
	if c.Interface, err = kubernetes.NewForConfigAndClient(bounded, c.http); err != nil {
		return nil, newUnreachable(cluster, errUnusable)
	}
	return c, nil
}

// Certificate says how long a certificate of a cluster is valid.
type Certificate struct {
	Name     string
	NotAfter time.Time
}

// Certificates returns those that a connection shows: the one that the API server presents, and those of the kubeconfig.
func (c *Clientset) Certificates(ctx context.Context) ([]Certificate, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.Host+"/version", nil)
	if err != nil {
		return nil, fmt.Errorf("the server of the kubeconfig: %w", err)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the API server: %s", describe(err))
	}
	defer answer.Body.Close() //nolint:errcheck // Nothing is read.
	var found []Certificate
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		found = append(found, Certificate{Name: "the API server", NotAfter: answer.TLS.PeerCertificates[0].NotAfter})
	}
	if len(c.config.CertData) > 0 {
		if pair, err := tls.X509KeyPair(c.config.CertData, c.config.KeyData); err == nil && pair.Leaf != nil {
			found = append(found, Certificate{Name: "the kubeconfig's user", NotAfter: pair.Leaf.NotAfter})
		}
	}
	return append(found, ParseBundle("the cluster's CA", c.config.CAData)...), nil
}

// ParseBundle returns the certificates of a PEM bundle that can be read, under a name.
func ParseBundle(name string, bundle []byte) []Certificate {
	var found []Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if parsed, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, Certificate{Name: name, NotAfter: parsed.NotAfter})
		}
	}
	return found
}
