package peers_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/windlass-dev/windlass/test/loopback"
)

// marked is in every body that a broken peer sends, and must not be shown anywhere.
const marked = "internal-secret"

// peer is a server that is broken until it gets well.
type peer struct {
	// URL is where it serves. Authority signed the certificate that it shows when it is well.
	URL       string
	Authority *loopback.Authority

	healthy http.Handler
	fault   fault
	well    atomic.Bool
	asked   atomic.Int64
	// led counts the requests at the place where redirects lead, and credentials those that carry
	// any.
	led, credentials atomic.Int64
	elsewhere        string
}

// fault is what is wrong with a peer.
type fault struct {
	name string
	// serve answers instead of the healthy peer; nil means that nothing is wrong with its answers.
	serve func(p *peer, w http.ResponseWriter, r *http.Request)
	// untrusted: the peer shows a certificate of an authority that nobody knows.
	untrusted bool
}

// faults are the rows of the suite.
var faults = []fault{
	{name: "endless", serve: serveEndless},
	{name: "slow", serve: serveSlowly},
	{name: "redirecting", serve: func(p *peer, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.elsewhere+"/latest/meta-data", http.StatusTemporaryRedirect)
	}},
	{name: "429", serve: func(_ *peer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(marked))
	}},
	{name: "garbage", serve: func(_ *peer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"key":"` + marked + "\x00\xff"))
	}},
	{name: "wrong certificate", untrusted: true},
	{name: "truncated", serve: func(_ *peer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"key":"` + marked))
		_ = http.NewResponseController(w).Flush() // The caller may be gone.
		panic(http.ErrAbortHandler)
	}},
}

// serveEndless sends up to 400 MiB of what begins like an answer.
func serveEndless(_ *peer, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write([]byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","annotations":{"a":"` + marked))
	for sent, piece := 0, []byte(strings.Repeat("x", 1<<20)); err == nil && sent < 400; sent++ {
		_, err = w.Write(piece)
	}
}

// serveSlowly begins an answer and never ends it.
func serveSlowly(_ *peer, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"key":"` + marked))
	_ = http.NewResponseController(w).Flush() // The caller may be gone.
	<-r.Context().Done()
	panic(http.ErrAbortHandler) // A return would complete the answer.
}

// newPeer starts a peer that answers as healthy does once it is well.
func newPeer(t *testing.T, f fault, healthy http.Handler) *peer {
	t.Helper()
	p := &peer{Authority: loopback.NewAuthority(t, "peer"), healthy: healthy, fault: f}
	trusted, unknown := p.Authority.Server(t), loopback.NewAuthority(t, "unknown").Server(t)
	server := httptest.NewUnstartedServer(p)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if f.untrusted && !p.well.Load() {
			return unknown, nil
		}
		return trusted, nil
	}}
	server.TLS.Certificates = trusted.Certificates
	server.Config.ErrorLog = discard()
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.led.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("Node-Token") != "" {
			p.credentials.Add(1)
		}
	}))
	t.Cleanup(elsewhere.Close)
	p.URL, p.elsewhere = server.URL, elsewhere.URL
	return p
}

// ServeHTTP answers a request.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	if p.fault.serve != nil && !p.well.Load() {
		p.fault.serve(p, w, r)
		return
	}
	p.healthy.ServeHTTP(w, r)
}

// checkNothingLeaked fails the test if a redirect was followed.
func (p *peer) checkNothingLeaked(t *testing.T) {
	t.Helper()
	if led, credentials := p.led.Load(), p.credentials.Load(); led > 0 {
		t.Errorf("%d requests followed a redirect, %d of them with credentials", led, credentials)
	}
}
