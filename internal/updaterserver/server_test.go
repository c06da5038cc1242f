package updaterserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/remote"
	"github.com/windlass-dev/windlass/internal/updaterserver"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
)

var machine = types.NamespacedName{Namespace: "ns", Name: "m-0"}

// canned is an updater whose answers are given.
type canned struct {
	port.Updater
	patches cover.Patches
	err     error
	answer  inplace.Answer
}

func (c *canned) CanUpdateMachine(context.Context, *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	return c.patches, c.err
}

func (c *canned) CanUpdateMachineSet(context.Context, *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	return c.patches, c.err
}

func (c *canned) UpdateMachine(context.Context, *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	return c.answer
}

func patch(word string) cover.Patch {
	return cover.Patch{Type: cover.JSONPatch, Data: []byte(word)}
}

// TestRoundTrip sends everything that an updater can say over the wire and back.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	updater := &canned{}
	server := servertest.Start(t, updater)
	caller, err := remote.New(updaters.ClientOptions{Name: "u", URL: server.URL, CABundle: server.CA}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)

	updater.patches = cover.Patches{Machine: patch("m"), Infrastructure: patch("i"), Bootstrap: cover.Patch{Type: cover.JSONMergePatch, Data: []byte("b")}}
	got, err := caller.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
	if diff := cmp.Diff(updater.patches, got); err != nil || diff != "" {
		t.Errorf("a machine: %v, patches (-want +got):\n%s", err, diff)
	}
	got, err = caller.CanUpdateMachineSet(t.Context(), porttest.CanUpdateMachineSet(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
	if diff := cmp.Diff(updater.patches, got); err != nil || diff != "" {
		t.Errorf("a machine set: %v, patches (-want +got):\n%s", err, diff)
	}
	updater.err = errors.New("not today")
	_, err = caller.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
	if failure, ok := errors.AsType[*updaters.Error](err); !ok || failure.Class != updaters.Refused || !strings.Contains(err.Error(), "not today") {
		t.Errorf("an error came back as %v", err)
	}

	for name, tt := range map[string]struct{ said, want inplace.Answer }{
		"in progress":      {inplace.Answer{Outcome: inplace.InProgress, Message: "a", RetryAfter: 3 * time.Second}, inplace.Answer{Outcome: inplace.InProgress, Message: "a", RetryAfter: 3 * time.Second}},
		"a part of second": {inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Millisecond}, inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Second}},
		"no time to wait":  {inplace.Answer{Outcome: inplace.InProgress}, inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Second}},
		"done":             {inplace.Answer{Outcome: inplace.Finishes, Message: "b", RetryAfter: time.Second}, inplace.Answer{Outcome: inplace.Finishes, Message: "b"}},
		"failed":           {inplace.Answer{Outcome: inplace.Fails, Message: "c"}, inplace.Answer{Outcome: inplace.Fails, Message: "c"}},
	} {
		updater.answer = tt.said
		if diff := cmp.Diff(tt.want, caller.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	updater.answer = inplace.Answer{Outcome: inplace.Unknown, Message: "no idea"}
	if got := caller.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")); got.Outcome != inplace.Unknown || !strings.Contains(got.Message, "503") {
		t.Errorf("what is not known came back as %+v", got)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	server, err := updaterserver.New(updaterserver.Options{Endpoint: hookserver.Endpoint{Port: 1}, Updater: &canned{}})
	if err != nil {
		t.Fatal(err)
	}
	var behaviours []string
	control := httptest.NewServer((&updaterserver.Control{
		Server: server, Stats: func() any { return map[string]int{"completed": 3} },
		SetBehaviour: func(raw json.RawMessage) error {
			if string(raw) == `"bad"` {
				return errors.New("no such behaviour")
			}
			behaviours = append(behaviours, string(raw))
			return nil
		},
	}).Handler())
	t.Cleanup(control.Close)
	do := func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, control.URL+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(content)
	}
	if code, content := do(http.MethodGet, "/stats", ""); code != http.StatusOK || content != "{\n  \"completed\": 3\n}\n" {
		t.Errorf("stats are %d %q", code, content)
	}
	for body, want := range map[string]int{
		`{"fault":"Error500"}`:                  http.StatusNoContent,
		`{"updater":{"mode":"Stall"}}`:          http.StatusNoContent,
		`{}`:                                    http.StatusNoContent,
		`{"fault":"Dance","updater":{"a":1}}`:   http.StatusBadRequest,
		`{"updater":"bad"}`:                     http.StatusBadRequest,
		`{"mode":"Stall"}`:                      http.StatusBadRequest,
		``:                                      http.StatusBadRequest,
		`"` + strings.Repeat("x", 70_000) + `"`: http.StatusBadRequest,
	} {
		if code, content := do(http.MethodPost, "/behaviour", body); code != want {
			t.Errorf("%.60s got %d %s, want %d", body, code, content, want)
		}
	}
	if diff := cmp.Diff([]string{`{"mode":"Stall"}`}, behaviours); diff != "" {
		t.Errorf("the updater was told (-want +got):\n%s", diff)
	}
	if code, _ := do(http.MethodGet, "/behaviour", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("GET /behaviour got %d", code)
	}
}

func TestListenLocal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"", "127.0.0.1", ":0", "0.0.0.0:0", "[::]:0", "localhost:0", "192.0.2.1:0", "unix:" + file, "unix:" + file + "/a"} {
		if listener, err := updaterserver.ListenLocal(t.Context(), address); err == nil {
			_ = listener.Close()
			t.Errorf("%q was accepted", address)
		}
	}
	// The second time, the socket of the first is in the way, as after a kill.
	socket := filepath.Join(t.TempDir(), "socket")
	for _, address := range []string{"127.0.0.1:0", "unix:" + socket, "unix:" + socket} {
		listener, err := updaterserver.ListenLocal(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		if unix, ok := listener.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- (&updaterserver.Control{}).Serve(ctx, listener) }()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}

func TestNewRefusesPorts(t *testing.T) {
	t.Parallel()
	for _, number := range []int{-1, 0, 65536} {
		_, err := updaterserver.New(updaterserver.Options{Endpoint: hookserver.Endpoint{Port: number}})
		if err == nil || !strings.HasPrefix(err.Error(), "creating the updater's server: port ") {
			t.Errorf("port %d: %v", number, err)
		}
	}
}

// TestNoLeaderElection holds that replicas of an updater serve side by side: none counts the updates
// of the others.
func TestNoLeaderElection(t *testing.T) {
	t.Parallel()
	server, err := updaterserver.New(updaterserver.Options{Endpoint: hookserver.Endpoint{Port: 1}, Updater: &canned{}})
	if err != nil {
		t.Fatal(err)
	}
	if server.NeedLeaderElection() {
		t.Error("an updater's server waits until its replica leads")
	}
}
