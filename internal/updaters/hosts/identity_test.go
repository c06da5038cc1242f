package hosts_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// certificate makes a certificate in PEM with a common name.
func certificate(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: start, NotAfter: start.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestIdentity: nothing runs on a host, beside what asks who it is, unless it is the Machine's own.
func TestIdentity(t *testing.T) {
	t.Parallel()
	other := certificate(t, "other")
	for name, tt := range map[string]struct {
		edit func(*world)
		// want is a part of the answer; empty for an update that begins. execs are the scripts that ran.
		want  string
		execs int
	}{
		"its own host":                       {edit: func(*world) {}, execs: -1},
		"its host trusts an older CA, too":   {edit: func(w *world) { w.hostAuthorities += other }, execs: -1},
		"a host of another cluster":          {edit: func(w *world) { w.hostAuthorities = other }, want: "node of another cluster", execs: 1},
		"a kubeconfig with the CAs of two":   {edit: func(w *world) { w.authorities += other }, want: "node of another cluster", execs: 1},
		"another node of the cluster":        {edit: func(w *world) { w.hostNode = certificate(t, "system:node:node-n") }, want: "is node node-n of the cluster, not node-m", execs: 1},
		"a prefix of the name":               {edit: func(w *world) { w.hostNode = certificate(t, "system:node:node-m2") }, want: "is node node-m2", execs: 1},
		"a certificate of nobody's node":     {edit: func(w *world) { w.hostNode = certificate(t, "admin") }, want: "is node admin", execs: 1},
		"no kubelet":                         {edit: func(w *world) { w.hostNode = "" }, want: "has no kubelet", execs: 1},
		"a kubeconfig without a CA":          {edit: func(w *world) { w.authorities = "" }, want: "has no certificate authority", execs: 1},
		"the Node is another Machine's":      {edit: func(w *world) { w.providerID = "id://other" }, want: `has the provider ID "id://other"`},
		"the Node has no provider ID":        {edit: func(w *world) { w.providerID = "" }, want: `has the provider ID ""`},
		"neither has a provider ID":          {edit: func(w *world) { w.providerID, w.machine.ProviderID = "", "" }, want: "Machine default/m has no spec.providerID"},
		"the Machine has no provider ID":     {edit: func(w *world) { w.machine.ProviderID = "" }, want: "has no spec.providerID"},
		"it does not answer, another's host": {edit: func(w *world) { w.providerError, w.hostAuthorities = errors.New("no route"), other }, want: "node of another cluster", execs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.edit(w)
			answer := w.updater(t).UpdateMachine(t.Context(), request("a-1"))
			if tt.want == "" {
				if answer.Outcome != inplace.InProgress {
					t.Errorf("the answer is %+v", answer)
				}
				return
			}
			if answer.Outcome != inplace.Fails || !strings.HasPrefix(answer.Message, "WrongHost: ") || !strings.Contains(answer.Message, tt.want) {
				t.Errorf("the answer is %+v", answer)
			}
			// A Machine that names another one's Node leads to no connection.
			if isConnected := w.target.SSH != nil; isConnected != (tt.execs > 0) {
				t.Errorf("the host was connected to: %t", isConnected)
			}
			if w.execs != tt.execs || w.job.state != "" || w.closed != tt.execs {
				t.Errorf("%d scripts ran, want %d; the job is %+v; %d connections were closed", w.execs, tt.execs, w.job, w.closed)
			}
		})
	}
}

// TestProof: without an answer of the API server nothing begins. Once a step has begun, updates
// continue without one, but only for what the API server had confirmed.
func TestProof(t *testing.T) {
	t.Parallel()
	older := certificate(t, "older")
	type asked = *runtimehooksv1.UpdateMachineRequest
	for name, tt := range map[string]struct {
		edit  func(*world, asked)
		waits bool
	}{
		"the same operation": {edit: func(*world, asked) {}},
		"another attempt":    {edit: func(_ *world, r asked) { *r = *request("a-2") }},
		"a corrected goal": {edit: func(_ *world, r asked) {
			r.Desired.Machine.Spec.Version = porttest.UpdaterNext
		}},
		"another Machine of that name": {waits: true, edit: func(w *world, _ asked) { w.machine.UID = "b" }},
		"another provider ID":          {waits: true, edit: func(w *world, _ asked) { w.machine.ProviderID = "b" }},
		"another host of that name":    {waits: true, edit: func(w *world, _ asked) { w.job = job{} }},
		"another CA that the host trusts": {waits: true, edit: func(w *world, _ asked) {
			w.hostAuthorities += older
			w.authorities = older
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			u := w.updater(t)
			w.providerError = errors.New("no route")
			answer := u.UpdateMachine(t.Context(), request("a-1"))
			if answer.Outcome != inplace.Unknown || !isUnconfirmed(answer) || w.execs != 1 {
				t.Fatalf("before it begins, the answer is %+v; %d scripts ran", answer, w.execs)
			}
			w.providerError = nil
			answer = u.UpdateMachine(t.Context(), request("a-1"))
			if answer.Outcome != inplace.InProgress || w.job.state == "" {
				t.Fatalf("it does not begin: %+v", answer)
			}
			w.advance()
			w.providerError = errors.New("no route")
			again := request("a-1")
			tt.edit(w, again)
			answer = u.UpdateMachine(t.Context(), again)
			if isUnconfirmed(answer) != tt.waits {
				t.Errorf("the answer is %+v", answer)
			}
		})
	}
}

func isUnconfirmed(a inplace.Answer) bool {
	return strings.HasPrefix(a.Message, "the API server has not confirmed Node node-m")
}
