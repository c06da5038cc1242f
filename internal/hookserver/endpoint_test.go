package hookserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/test/loopback"
)

const clientCAFile = "callers.crt"

// serveCallers starts a server that requires certificates of callers' CA, and returns its URL and its client CA file.
func serveCallers(t *testing.T, ca, callers authority) (url, caFile string) {
	t.Helper()
	dir := t.TempDir()
	ca.install(t, dir, 2)
	caFile = filepath.Join(dir, clientCAFile)
	writeFile(t, caFile, callers.PEM)
	port := loopback.FreePort(t)
	server, err := hookserver.NewTLSServer(hookserver.Endpoint{BindAddress: "127.0.0.1", Port: port, CertDir: dir, ClientCAName: clientCAFile})
	if err != nil {
		t.Fatal(err)
	}
	server.Register("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	run(t, server.Start, server.StartedChecker())
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), caFile
}

// caller returns a client that trusts ca. It presents a certificate that issuer signs, unless issuer is nil. It keeps its connections.
func caller(t *testing.T, ca authority, issuer *authority, edits ...func(*x509.Certificate)) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: ca.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	if issuer != nil {
		pair := issuer.issue(t, 9, edits...).Pair(t)
		// As Cluster API does it: whatever CAs the server names.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// refused is what call returns where there was no answer. The error does not tell why reliably: with TLS 1.3 the client may
// write its request before it reads the server's alert.
const refused = "refused"

// call returns the status of a request, or refused.
func call(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(request)
	if err != nil {
		return refused
	}
	_ = answer.Body.Close()
	return answer.Status
}

// tlsOf returns how a caller speaks TLS.
func tlsOf(t *testing.T, c *http.Client) *tls.Config {
	t.Helper()
	transport, ok := c.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", c.Transport)
	}
	return transport.TLSClientConfig
}

// alert returns why the server ends a connection.
func alert(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	dialer := tls.Dialer{Config: tlsOf(t, c)}
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = connection.Close() }()
	if _, err = connection.Read(make([]byte, 1)); err == nil {
		return "" // It serves.
	}
	return err.Error()
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, callers := newAuthority(t), newAuthority(t)
	url, _ := serveCallers(t, ca, callers)
	past, future := time.Now().Add(-time.Minute), time.Now().Add(30*time.Minute)
	for name, tt := range map[string]struct {
		issuer *authority
		edit   func(*x509.Certificate)
		// want is the server's alert; empty: it serves.
		want string
	}{
		"of the client CA":         {issuer: &callers},
		"none":                     {want: "certificate required"},
		"of another CA":            {issuer: &ca, want: "unknown certificate authority"},
		"expired":                  {issuer: &callers, edit: func(c *x509.Certificate) { c.NotAfter = past }, want: "expired certificate"},
		"not valid yet":            {issuer: &callers, edit: func(c *x509.Certificate) { c.NotBefore = future }, want: "expired certificate"},
		"for servers, not clients": {issuer: &callers, edit: func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, want: "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var edits []func(*x509.Certificate)
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			c := caller(t, ca, tt.issuer, edits...)
			if tt.want == "" {
				if got := call(t, c, url); got != "200 OK" {
					t.Errorf("the answer is %q", got)
				}
				return
			}
			if got := call(t, c, url); got != refused {
				t.Errorf("the answer is %q", got)
			}
			if got := alert(t, c, url); !strings.Contains(got, tt.want) {
				t.Errorf("the connection ends with %q, want %q", got, tt.want)
			}
		})
	}
}

// TestClientCARotation replaces the file under callers that keep their connections.
func TestClientCARotation(t *testing.T) {
	t.Parallel()
	ca, before, after := newAuthority(t), newAuthority(t), newAuthority(t)
	url, file := serveCallers(t, ca, before)
	old, renewed := caller(t, ca, &before), caller(t, ca, &after)
	check := func(step, wantOld, wantNew string) {
		t.Helper()
		if got := call(t, old, url); got != wantOld {
			t.Errorf("%s: the call with a certificate of the old CA ends with %q, want %q", step, got, wantOld)
		}
		if got := call(t, renewed, url); got != wantNew {
			t.Errorf("%s: the call with a certificate of the new CA ends with %q, want %q", step, got, wantNew)
		}
	}
	const served, forbidden = "200 OK", "403 Forbidden"
	check("before", served, refused)
	writeFile(t, file, slices.Concat(before.PEM, after.PEM))
	check("with both", served, served)
	writeFile(t, file, after.PEM)
	check("after", forbidden, served)
	check("on a new connection", refused, served)
	writeFile(t, file, []byte("nonsense"))
	check("with a file that holds no certificate", refused, forbidden)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("without a file", refused, refused)
	writeFile(t, file, before.PEM)
	check("repaired", served, refused)
}

// A connection outlives the certificate it was made with; requests on it are refused from then on.
func TestCertificateExpiresOnConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ca, file := newAuthority(t), filepath.Join(t.TempDir(), clientCAFile)
		writeFile(t, file, ca.PEM)
		counts, err := hookserver.ReadClientCA(file)
		if err != nil {
			t.Fatal(err)
		}
		config := ca.Server(t)
		counts.Require(config)
		end := time.Now().Add(time.Minute)
		c := caller(t, ca, &ca, func(c *x509.Certificate) { c.NotAfter = end })
		c.Transport = serveInMemory(t, config, tlsOf(t, c), counts.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		const url = "https://127.0.0.1"
		if got := call(t, c, url); got != "200 OK" {
			t.Fatalf("the call ends with %q", got)
		}
		<-time.After(time.Minute + time.Second)
		if got := call(t, c, url); got != "403 Forbidden" {
			t.Errorf("after the end of the certificate the call ends with %q", got)
		}
		synctest.Wait()
		if got := call(t, c, url); got != refused {
			t.Errorf("on a new connection the call ends with %q", got)
		}
	})
}

func TestNewTLSServerErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "empty.crt"), nil)
	for name, want := range map[string]string{"missing.crt": "no such file", "empty.crt": "empty.crt holds no certificate"} {
		_, err := hookserver.NewTLSServer(hookserver.Endpoint{Port: 1, CertDir: dir, ClientCAName: name})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with the client CA %s the error is %v, want %q", name, err, want)
		}
	}
}
