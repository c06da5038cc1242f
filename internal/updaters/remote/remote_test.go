package remote_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/remote"
	"github.com/windlass-dev/windlass/internal/updaterserver"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
)

const hooks = "hooks.runtime.cluster.x-k8s.io/v1alpha1"

var machine = types.NamespacedName{Namespace: "ns", Name: "m-0"}

func connect(t *testing.T, o updaters.ClientOptions) *remote.Updater {
	t.Helper()
	if o.Name == "" {
		o.Name = "tested"
	}
	updater, err := remote.New(o, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(updater.Close)
	return updater
}

// script is an updater whose answers are given.
type script struct {
	server *httptest.Server
	// discovery is the answer to Discovery, answer that to everything else.
	discovery, answer http.HandlerFunc
	discoveries       atomic.Int32
	last              atomic.Pointer[http.Request]
	lastBody          atomic.Pointer[[]byte]
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{discovery: says(discovery(hooks, "CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"))}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/discovery") {
			s.discoveries.Add(1)
			s.discovery(w, r)
			return
		}
		s.last.Store(r)
		s.lastBody.Store(&body)
		s.answer(w, r)
	}))
	t.Cleanup(s.server.Close)
	return s
}

// longTimeout is for updaters that answer, also on a busy machine.
const longTimeout = 30 * time.Second

func (s *script) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
}

func (s *script) connect(t *testing.T) *remote.Updater {
	t.Helper()
	return connect(t, updaters.ClientOptions{URL: s.server.URL + "/base", CABundle: s.ca(), Timeout: longTimeout})
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret words", code) }
}

func discovery(version string, served ...string) string {
	var handlers []string
	for _, hook := range served {
		handlers = append(handlers, fmt.Sprintf(`{"name":"on-%s","requestHook":{"apiVersion":%q,"hook":%q}}`, strings.ToLower(hook), version, hook))
	}
	return `{"status":"Success","handlers":[` + strings.Join(handlers, ",") + `]}`
}

// question asks the script's updater whether it can update the machine.
func question(t *testing.T, u *remote.Updater) (cover.Patches, error) {
	t.Helper()
	return u.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
}

func checkError(t *testing.T, err error, class updaters.Class, words ...string) {
	t.Helper()
	failure, ok := errors.AsType[*updaters.Error](err)
	if !ok || failure.Class != class {
		t.Errorf("the error is %v, want one of class %s", err, class)
		return
	}
	for _, word := range append(words, "updater tested") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error is %q, want it to say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "secret") || len(err.Error()) > 2048 {
		t.Errorf("the error says too much: %q", err)
	}
}

func TestAnswersToCanUpdate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		class  updaters.Class
		words  string
	}{
		"status Failure":          {says(`{"status":"Failure","message":"no\u0007 way\n"}`), updaters.Refused, "it refused: no  way"},
		"status Failure, no word": {says(`{"status":"Failure"}`), updaters.Refused, "gave no reason"},
		"no status":               {says(`{}`), updaters.Nonsense, "Success or Failure"},
		"another status":          {says(`{"status":"Maybe"}`), updaters.Nonsense, `"Maybe"`},
		"no JSON":                 {says(`<html>`), updaters.Nonsense, "not the JSON of a CanUpdateMachineResponse"},
		"a list":                  {says(`[]`), updaters.Nonsense, "JSON"},
		"nothing":                 {says(" \n"), updaters.Nonsense, "empty"},
		"too much":                {says(`{"status":"Success","message":"` + strings.Repeat("x", 3<<20) + `"}`), updaters.Nonsense, "more than 2097152 bytes"},
		"an old API version":      {says(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha0","kind":"CanUpdateMachineResponse","status":"Success"}`), updaters.Nonsense, "v1alpha0"},
		"another kind":            {says(`{"apiVersion":"` + hooks + `","kind":"Pod","status":"Success"}`), updaters.Nonsense, "a Pod"},
		"not found":               {status(404), updaters.Nonsense, "404"},
		"server error":            {status(500), updaters.Nonsense, "500"},
		"unavailable":             {status(503), updaters.Unreachable, "503"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
			updaters.Nonsense, "redirects are not followed"},
		"the connection breaks": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, updaters.Unreachable, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answer = tt.answer
			u := s.connect(t)
			patches, err := question(t, u)
			checkError(t, err, tt.class, tt.words)
			if diff := cmp.Diff(cover.Patches{}, patches); diff != "" {
				t.Errorf("with an error it answered\n%s", diff)
			}
			got := u.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a"))
			want := inplace.Unknown
			if tt.class == updaters.Refused {
				want = inplace.Fails
			}
			if got.Outcome != want || got.Message == "" || len(got.Message) > 2048 {
				t.Errorf("UpdateMachine answers %+v, want outcome %d", got, want)
			}
		})
	}
}

func TestTheRequestOnTheWire(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer = says(`{"status":"Success","future":{"a":1},"machinePatch":{"patchType":"JSONPatch","patch":"W10="}}`)
	patches, err := question(t, s.connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cover.Patches{Machine: cover.Patch{Type: cover.JSONPatch, Data: []byte("[]")}}, patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	r := s.last.Load()
	if want := "/base/" + hooks + "/canupdatemachine/on-canupdatemachine"; r.Method != http.MethodPost || r.URL.Path != want || r.URL.Query().Get("timeout") != longTimeout.String() {
		t.Errorf("the request is %s %s, want POST %s with the timeout", r.Method, r.URL, want)
	}
	var typed metav1.TypeMeta
	if err := json.Unmarshal(*s.lastBody.Load(), &typed); err != nil {
		t.Fatal(err)
	}
	if typed.APIVersion != hooks || typed.Kind != "CanUpdateMachineRequest" {
		t.Errorf("the request says it is %+v", typed)
	}
}

func TestAnswersToUpdateMachine(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]inplace.Answer{
		`{"status":"Success","retryAfterSeconds":7,"message":"half way"}`: {Outcome: inplace.InProgress, Message: "half way", RetryAfter: 7 * time.Second},
		`{"status":"Success","retryAfterSeconds":2147483647}`:             {Outcome: inplace.InProgress, RetryAfter: time.Hour},
		`{"status":"Success"}`:                                 {Outcome: inplace.Finishes},
		`{"status":"Success","message":"\u001b[31mred\u202e"}`: {Outcome: inplace.Finishes, Message: "[31mred"},
		`{"status":"Failure","message":"disk full"}`:           {Outcome: inplace.Fails, Message: "disk full"},
		`{"status":"Failure"}`:                                 {Outcome: inplace.Fails, Message: "the updater gave no reason"},
		`{"status":"Success","retryAfterSeconds":-1}`: {Outcome: inplace.Unknown,
			Message: "the updater answered retryAfterSeconds -1, which means nothing; it must be 0 when done and above 0 before"},
		`{"status":"Success","message":"` + strings.Repeat("ä", 1000) + `"}`: {Outcome: inplace.Finishes, Message: strings.Repeat("ä", 510) + "..."},
	} {
		s := newScript(t)
		s.answer = says(answer)
		got := s.connect(t).UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", answer, diff)
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	handler := func(name, hook string) string {
		return fmt.Sprintf(`{"name":%q,"requestHook":{"apiVersion":%q,"hook":%q}}`, name, hooks, hook)
	}
	for name, tt := range map[string]struct {
		discovery http.HandlerFunc
		class     updaters.Class
		words     string
	}{
		"all":                {says(discovery(hooks, "CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine", "BeforeClusterCreate")), "", ""},
		"no machine sets":    {says(discovery(hooks, "CanUpdateMachine", "UpdateMachine")), "", ""},
		"nothing":            {says(`{"status":"Success"}`), updaters.Nonsense, "serves none of the hooks"},
		"other hooks":        {says(discovery(hooks, "BeforeClusterCreate")), updaters.Nonsense, "serves none of the hooks"},
		"no update":          {says(discovery(hooks, "CanUpdateMachine")), updaters.Nonsense, "only a part"},
		"only update":        {says(discovery(hooks, "UpdateMachine")), updaters.Nonsense, "only a part"},
		"an old API version": {says(discovery("hooks.runtime.cluster.x-k8s.io/v1alpha0", "CanUpdateMachine", "UpdateMachine")), updaters.Nonsense, "v1alpha0"},
		"twice the same": {says(`{"status":"Success","handlers":[` + handler("a", "UpdateMachine") + `,` + handler("b", "UpdateMachine") + `]}`),
			updaters.Nonsense, "two handlers of UpdateMachine: a and b"},
		"a path for a name": {says(`{"status":"Success","handlers":[` + handler("../../x", "UpdateMachine") + `]}`), updaters.Nonsense, "../../x"},
		"too many":          {says(`{"status":"Success","handlers":[` + strings.Repeat(handler("a", "X")+",", 300) + handler("a", "X") + `]}`), updaters.Nonsense, "301"},
		"a hand-over updater": {says(`{"apiVersion":"updates.windlass.dev/v1alpha1","kind":"HandOverResponse","accepted":false}`),
			updaters.Nonsense, "a hand-over updater. Fix: set spec.remote.protocol: HandOver in the Updater"},
		"Failure":      {says(`{"status":"Failure","message":"starting"}`), updaters.Refused, "starting"},
		"server error": {status(500), updaters.Nonsense, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.discovery, s.answer = tt.discovery, says(`{"status":"Success"}`)
			u := s.connect(t)
			err := u.Check(t.Context())
			_, asked := question(t, u)
			if tt.class == "" {
				if err != nil || asked != nil {
					t.Errorf("the errors are %v and %v", err, asked)
				}
				return
			}
			checkError(t, err, tt.class, tt.words)
			checkError(t, asked, tt.class, tt.words)
			if got := u.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")); got.Outcome != inplace.Unknown {
				t.Errorf("UpdateMachine answers %+v: nothing was said about the machine", got)
			}
		})
	}
}

func TestAHookThatIsNotServedCoversNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.discovery, s.answer = says(discovery(hooks, "CanUpdateMachine", "UpdateMachine")), status(500)
	patches, err := s.connect(t).CanUpdateMachineSet(t.Context(), porttest.CanUpdateMachineSet(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
	if diff := cmp.Diff(cover.Patches{}, patches); err != nil || diff != "" {
		t.Errorf("error %v, patches\n%s", err, diff)
	}
	if s.last.Load() != nil {
		t.Error("it was asked")
	}
}

func TestDiscoveryIsKept(t *testing.T) {
	t.Parallel()
	s, now := newScript(t), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s.answer = says(`{"status":"Success"}`)
	u, err := remote.New(updaters.ClientOptions{URL: s.server.URL, CABundle: s.ca()}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	check := func(want int32) {
		t.Helper()
		_, _ = question(t, u)
		if got := s.discoveries.Load(); got != want {
			t.Errorf("it was discovered %d times, want %d", got, want)
		}
	}
	check(1)
	check(1)
	now = now.Add(time.Minute)
	check(2)
	// After a failure the updater may be another one.
	s.answer = status(500)
	check(2)
	s.answer = says(`{"status":"Failure"}`)
	check(3)
	// A refusal is an answer.
	check(3)
}

func TestTrust(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer = says(`{"status":"Success"}`)
	other := servertest.Start(t, nil)
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	t.Cleanup(old.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, tt := range map[string]struct {
		o     updaters.ClientOptions
		words string
	}{
		"another CA":    {updaters.ClientOptions{URL: s.server.URL, CABundle: other.CA}, "not trusted"},
		"the system's":  {updaters.ClientOptions{URL: s.server.URL}, "not trusted"},
		"another name":  {updaters.ClientOptions{URL: s.server.URL, CABundle: s.ca(), ServerName: "updater.ns.svc"}, "another name"},
		"an old TLS":    {updaters.ClientOptions{URL: old.URL, CABundle: s.ca()}, "cannot be reached"},
		"no TLS":        {updaters.ClientOptions{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, "does not speak TLS"},
		"nobody there":  {updaters.ClientOptions{URL: "https://127.0.0.1:1"}, "cannot be reached"},
		"a dead tunnel": {updaters.ClientOptions{URL: s.server.URL, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("tunnel is down") }}, "tunnel is down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkError(t, connect(t, tt.o).Check(t.Context()), updaters.Unreachable, tt.words)
		})
	}
	if err := connect(t, updaters.ClientOptions{URL: s.server.URL, CABundle: s.ca(), ServerName: "example.com"}).Check(t.Context()); err != nil {
		t.Errorf("with a server name that the certificate has: %v", err)
	}
}

func TestHangingUpdater(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	u := connect(t, updaters.ClientOptions{URL: s.server.URL, CABundle: s.ca(), Timeout: 200 * time.Millisecond})
	_, err := question(t, u)
	checkError(t, err, updaters.Unreachable, "did not answer within 200ms")
}

// TestFaults makes the server of this project misbehave, as the end-to-end tests do.
func TestFaults(t *testing.T) {
	t.Parallel()
	for fault, class := range map[updaterserver.Fault]updaters.Class{
		updaterserver.ErrorFault: updaters.Nonsense, updaterserver.NonsenseFault: updaters.Nonsense, updaterserver.EmptyFault: updaters.Nonsense,
		updaterserver.OldVersionFault: updaters.Nonsense, updaterserver.RedirectFault: updaters.Nonsense, updaterserver.HangFault: updaters.Unreachable, updaterserver.NoFault: "",
	} {
		server := servertest.Start(t, nil)
		server.Server.SetFault(fault)
		o := updaters.ClientOptions{URL: server.URL, CABundle: server.CA, Timeout: longTimeout}
		u := connect(t, o)
		if fault == updaterserver.HangFault {
			o.Timeout = 200 * time.Millisecond
			checkError(t, connect(t, o).Check(t.Context()), class)
		} else if err := u.Check(t.Context()); fault != updaterserver.NoFault {
			checkError(t, err, class)
		}
		server.Server.SetFault(updaterserver.NoFault)
		if err := u.Check(t.Context()); err != nil {
			t.Errorf("after %s: %v", fault, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]updaters.ClientOptions{
		"no URL":         {},
		"http":           {URL: "http://127.0.0.1"},
		"no host":        {URL: "https:///path"},
		"credentials":    {URL: "https://user:secret@127.0.0.1"},
		"a query":        {URL: "https://127.0.0.1?token=secret"},
		"a fragment":     {URL: "https://127.0.0.1#a"},
		"malformed":      {URL: "https://user:secret@[::1"},
		"an empty CA":    {URL: "https://127.0.0.1", CABundle: []byte("no PEM")},
		"a long timeout": {URL: "https://127.0.0.1", Timeout: time.Hour},
		"a negative one": {URL: "https://127.0.0.1", Timeout: -1},
	} {
		_, err := remote.New(o, time.Now)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestResolveService(t *testing.T) {
	t.Parallel()
	for want, ref := range map[string]v1alpha1.ServiceReference{
		"https://updater.ns.svc:443":       {Name: "updater", Namespace: "ns"},
		"https://updater.ns.svc:9443/a/b":  {Name: "updater", Namespace: "ns", Port: 9443, Path: "a/b/"},
		"https://updater.ns.svc:9443/b":    {Name: "updater", Namespace: "ns", Port: 9443, Path: "/a/../b"},
		"https://updater.ns.svc:443/a%3Fb": {Name: "updater", Namespace: "ns", Path: "/a?b"},
	} {
		got, err := remote.ResolveService(ref)
		if err != nil || got != want {
			t.Errorf("%+v gave %q and %v, want %q", ref, got, err, want)
		}
		if u, err := url.Parse(got); err != nil || u.RawQuery != "" {
			t.Errorf("%q is read as %+v, %v", got, u, err)
		}
	}
	for _, ref := range []v1alpha1.ServiceReference{
		{Namespace: "ns"}, {Name: "a"}, {Name: "a.b", Namespace: "ns"}, {Name: "a/b", Namespace: "ns"}, {Name: "a", Namespace: "ns", Port: -1}, {Name: "a", Namespace: "ns", Port: 65536},
	} {
		if got, err := remote.ResolveService(ref); err == nil {
			t.Errorf("%+v gave %q", ref, got)
		}
	}
}
