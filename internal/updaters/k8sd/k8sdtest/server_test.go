package k8sdtest_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/test/loopback"
)

func newServer(t *testing.T, o k8sdtest.Options) *k8sdtest.Server {
	t.Helper()
	s, err := k8sdtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// post makes a request, and gives the status and the answer without what is the same in all.
func post(t *testing.T, s *k8sdtest.Server, token, path, body string) (code int, answer string, err error) {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CABundle()) {
		t.Fatal("the CA bundle holds no certificate")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.Address()+"/1.0/snap/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Node-Token", token)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	var envelope struct {
		Error    string          `json:"error"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil {
		return response.StatusCode, "", err
	}
	return response.StatusCode, envelope.Error + string(envelope.Metadata), nil
}

func expect(t *testing.T, s *k8sdtest.Server, token, path, body string, code int, want string) {
	t.Helper()
	if got, answer, err := post(t, s, token, path, body); err != nil || got != code || !strings.Contains(answer, want) {
		t.Errorf("%s %s gives %d %s, %v, want %d %s", path, body, got, answer, err, code, want)
	}
}

func add(t *testing.T, s *k8sdtest.Server, name, token string) {
	t.Helper()
	if err := s.AddMachine(name, token, k8sdtest.Option{Channel: "old"}); err != nil {
		t.Fatal(err)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	var applied []string
	s := newServer(t, k8sdtest.Options{
		Duration: time.Minute, Now: func() time.Time { return time.Unix(now.Load(), 0) },
		Apply: func(_ context.Context, machine string, o k8sdtest.Option) error {
			applied = append(applied, machine+" "+o.Channel+o.Revision+o.LocalPath)
			if o.Revision == "13" {
				return errors.New("bad luck")
			}
			return nil
		},
	})
	add(t, s, "a", "ta")
	add(t, s, "b", "tb")
	const refresh, status = "refresh", "refresh-status"
	expect(t, s, "", refresh, `{}`, 401, "node-token")
	expect(t, s, "tc", refresh, `{"channel":"new"}`, 401, "invalid token")
	expect(t, s, "ta", "else", `{}`, 404, "not found")
	for _, bad := range []string{`{}`, `{"channel":"a","revision":"1"}`, `{"channel":"a","more":1}`, `[`} {
		expect(t, s, "ta", refresh, bad, 400, "")
	}
	expect(t, s, "ta", refresh, `{"localPath":"a"}`, 500, "exit status 1")
	expect(t, s, "ta", status, `[`, 400, "")
	expect(t, s, "ta", refresh, `{"channel":"old"}`, 200, `{"changeId":""}`)
	expect(t, s, "ta", refresh, `{"channel":"new"}`, 200, `{"changeId":"1"}`)
	expect(t, s, "ta", refresh, `{"channel":"newer"}`, 500, "failed to refresh snap: failed to refresh snap: exit status 10")
	expect(t, s, "tb", refresh, `{"localPath":"/k8s.snap"}`, 200, `{"changeId":"2"}`)
	expect(t, s, "ta", status, `{"changeId":"2"}`, 200, `{"status":"","completed":false,"errorMessage":""}`)
	expect(t, s, "ta", status, `{"changeId":"1"}`, 200, `{"status":"Doing","completed":false,"errorMessage":""}`)
	now.Store(60)
	expect(t, s, "ta", status, `{"changeId":"1"}`, 200, `{"status":"Done","completed":true,"errorMessage":""}`)
	s.Settle()
	if diff := cmp.Diff([]string{"a new", "b /k8s.snap"}, applied); diff != "" {
		t.Error(diff)
	}
	// A file is installed as often as it is asked for; a channel is not.
	expect(t, s, "ta", refresh, `{"channel":"new"}`, 200, `{"changeId":""}`)
	expect(t, s, "tb", refresh, `{"localPath":"/k8s.snap"}`, 200, `{"changeId":"3"}`)
	expect(t, s, "ta", refresh, `{"revision":"13"}`, 200, `{"changeId":"4"}`)
	now.Store(120)
	expect(t, s, "ta", status, `{"changeId":"4"}`, 200, `{"status":"Error","completed":true,"errorMessage":"bad luck"}`)
	got, _ := s.Machine("a")
	if diff := cmp.Diff(k8sdtest.MachineState{Installed: k8sdtest.Option{Channel: "new"}, Refreshes: 2, Completed: 1, Requests: 15}, got); diff != "" {
		t.Error(diff)
	}
	s.RemoveMachine("b")
	expect(t, s, "tb", status, `{"changeId":"3"}`, 401, "invalid token")
	// A machine may get another token.
	add(t, s, "a", "ta2")
	expect(t, s, "ta", refresh, `{}`, 401, "")
	expect(t, s, "ta2", refresh, `{}`, 400, "")
}

func TestFaultsThatCount(t *testing.T) {
	t.Parallel()
	s := newServer(t, k8sdtest.Options{Duration: time.Hour})
	add(t, s, "a", "ta")
	if err := s.SetFaults("a", k8sdtest.Faults{DropBefore: true, Times: 2, RestartFor: time.Second}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code, answer, err := post(t, s, "ta", "refresh", `{"channel":"new"}`); err == nil {
			t.Errorf("a request was answered with %d %s", code, answer)
		}
	}
	expect(t, s, "ta", "refresh", `{"channel":"new"}`, 200, `{"changeId":"1"}`)
}

// With the real clock a change ends though nobody asks.
func TestChangesEndByThemselves(t *testing.T) {
	t.Parallel()
	applied := make(chan struct{})
	s := newServer(t, k8sdtest.Options{
		Duration: time.Millisecond,
		Apply:    func(context.Context, string, k8sdtest.Option) error { close(applied); return nil },
	})
	add(t, s, "a", "ta")
	if _, err := s.Begin("a", k8sdtest.Option{Revision: "1"}); err != nil {
		t.Fatal(err)
	}
	<-applied
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	s := newServer(t, k8sdtest.Options{
		Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(loopback.FreePort(t))), Duration: time.Hour,
	})
	add(t, s, "a", "ta")
	address := s.Address()
	s.SetDuration(0)
	expect(t, s, "ta", "refresh", `{"channel":"new"}`, 200, `{"changeId":"1"}`)
	s.Stop()
	s.Stop()
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		t.Error("it still listens")
	}
	for range 2 {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, s, "ta", "refresh-status", `{"changeId":"1"}`, 200, "Done")
	if s.Address() != address || address != fmt.Sprintf("127.0.0.1:%d", s.Port()) {
		t.Errorf("it was at %s and is at %s, port %d", address, s.Address(), s.Port())
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	s := newServer(t, k8sdtest.Options{})
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	secure, ok := conn.(*tls.Conn)
	if !ok {
		t.Fatalf("the connection is a %T", conn)
	}
	want := fmt.Sprintf("%X", sha256.Sum256(secure.ConnectionState().PeerCertificates[0].Raw))
	if got := strings.ReplaceAll(s.Fingerprint(), ":", ""); got != want {
		t.Errorf("the fingerprint is %s, want %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", "localhost:0", "127.0.0.1"} {
		if s, err := k8sdtest.New(k8sdtest.Options{Address: address}); err == nil {
			s.Close()
			t.Errorf("it listens on %s", address)
		}
	}
	s := newServer(t, k8sdtest.Options{Duration: time.Hour})
	add(t, s, "a", "ta")
	if _, err := s.Begin("a", k8sdtest.Option{Revision: "1"}); err != nil {
		t.Fatal(err)
	}
	_, twice := s.Begin("a", k8sdtest.Option{Revision: "1"})
	_, nobody := s.Begin("x", k8sdtest.Option{})
	for name, err := range map[string]error{
		"no name": s.AddMachine("", "t", k8sdtest.Option{}), "no token": s.AddMachine("b", "", k8sdtest.Option{}),
		"a token of another":   s.AddMachine("b", "ta", k8sdtest.Option{}),
		"a change on a change": twice, "a change of nobody": nobody,
		"faults of nobody": s.SetFaults("x", k8sdtest.Faults{}), "changes of nobody": s.ForgetChanges("x"),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, ok := s.Machine("x"); ok {
		t.Error("there is a machine that was not added")
	}
}
