package linuxhost

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
)

// Identity is what a host's kubelet is configured with: which node it is, and which API server it trusts.
type Identity struct {
	// Node is the name of the node, as its certificate has it.
	Node string
	// Authorities are the certificates that sign the API server's, as DER.
	Authorities [][]byte
	// Proof is the result of Proof with which the host's last step was started; empty for none.
	Proof string
}

// Proof names what an API server has proved about a Machine's node before a step begins: that it has
// a key under the authorities, and has the node with the Machine's provider ID. It is kept on the host,
// so that updates continue while that API server is away, such as during its own upgrade, and so that
// an update to a corrected goal can bring it back. It counts for nothing but these values.
func Proof(machine, uid, providerID string, cluster Identity) string {
	parts := []string{machine, uid, providerID, cluster.Node}
	for _, authority := range cluster.Authorities {
		parts = append(parts, string(authority))
	}
	sum := sha256.New()
	writeParts(sum, parts...)
	return hex.EncodeToString(sum.Sum(nil))
}

// nodePrefix begins the common name of each kubelet's certificate.
const nodePrefix = "system:node:"

// IdentityScript prints what ParseIdentity parses. It writes nothing, and prints no key. It runs before every other script, because until it has answered
// nobody knows whose host it is.
func IdentityScript(g Goal) string {
	if g.Distribution == Kubeadm {
		return g.script("identity-kubeadm")
	}
	return g.script("identity-rancher")
}

// ParseIdentity parses what IdentityScript printed. A host without a kubelet has the zero Identity.
func ParseIdentity(output string) (Identity, error) {
	values, err := parseValues(output)
	if err != nil {
		return Identity{}, err
	}
	found := Identity{Proof: values["proof"]}
	if found.Authorities, err = ParseCertificates([]byte(values["authorities"])); err != nil {
		return Identity{}, fmt.Errorf("the host's answer: the authorities of its kubelet: %w", err)
	}
	own, err := ParseCertificates([]byte(values["node-certificate"]))
	if err != nil {
		return Identity{}, fmt.Errorf("the host's answer: the certificate of its kubelet: %w", err)
	}
	if len(own) == 0 {
		return found, nil
	}
	certificate, err := x509.ParseCertificate(own[0])
	if err != nil {
		return Identity{}, fmt.Errorf("the host's answer: the certificate of its kubelet: %w", err)
	}
	found.Node, _ = strings.CutPrefix(certificate.Subject.CommonName, nodePrefix)
	return found, nil
}

// ParseCertificates returns the certificates in PEM as DER.
func ParseCertificates(text []byte) ([][]byte, error) {
	var found [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		found = append(found, block.Bytes)
	}
	return found, nil
}

// CheckIdentity compares a host with the node that is to be updated. want.Authorities are those of the kubeconfig of the Machine's Cluster: the host's kubelet
// must trust all of them. nil means that the host is the node's.
//
// Nobody but who holds the private key of another cluster's authority can make a host of that cluster pass: its kubelet trusts no other.
func CheckIdentity(want, got Identity) *Failure {
	refuse := func(format string, args ...any) *Failure {
		return &Failure{Reason: WrongHost, Message: fmt.Sprintf(format, args...) + ". Nothing was written. Fix: the Machine's address and node must be those of its own host"}
	}
	known := func(authority []byte) bool {
		return slices.ContainsFunc(got.Authorities, func(other []byte) bool { return slices.Equal(authority, other) })
	}
	switch {
	case got.Node == "":
		return refuse("the host that answers has no kubelet with a certificate of a node, but should be node %s", want.Node)
	case len(want.Authorities) == 0:
		return refuse("the kubeconfig of the Machine's Cluster has no certificate authority, so nobody can tell whether the host belongs to it")
	case slices.ContainsFunc(want.Authorities, func(authority []byte) bool { return !known(authority) }):
		return refuse("the host that answers is a node of another cluster: its kubelet does not trust the certificate authority of the Machine's Cluster")
	case got.Node != want.Node:
		return refuse("the host that answers is node %s of the cluster, not %s", got.Node, want.Node)
	}
	return nil
}
