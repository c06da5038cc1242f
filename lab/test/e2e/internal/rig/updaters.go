package rig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/internal/simulated"
)

// Updater is a simulated updater that runs on a plane, and its control.
type Updater struct {
	Name    string
	http    *http.Client
	control string
	client  client.Client
}

// NewUpdater starts and registers a simulated updater. What it did outlives its process.
func (p *Plane) NewUpdater(ctx context.Context, t *testing.T, u setup.SimulatedUpdater) *Updater {
	t.Helper()
	u.StateFile = filepath.Join(t.TempDir(), u.Name+".jsonl")
	child, err := setup.RegisterUpdater(ctx, p.Plane, p.Programs.Lab, u)
	if err != nil {
		t.Fatal(err)
	}
	return &Updater{
		Name: u.Name, http: p.Inside(&http.Transport{}), client: p.Client,
		control: fmt.Sprintf("http://127.0.0.1:%d", child.Ports[setup.StatsPort]),
	}
}

// Behave changes the updater's behaviour, by the JSON of POST /behaviour.
func (u *Updater) Behave(ctx context.Context, t *testing.T, behaviour string) {
	t.Helper()
	if code, body := u.ask(ctx, t, http.MethodPost, "/behaviour", []byte(behaviour)); code != http.StatusNoContent {
		t.Fatalf("updater %s: %s: %d %s", u.Name, behaviour, code, body)
	}
}

// Stats reads what the updater has done.
func (u *Updater) Stats(ctx context.Context, t *testing.T) simulated.Stats {
	t.Helper()
	code, body := u.ask(ctx, t, http.MethodGet, "/stats", nil)
	var s simulated.Stats
	if err := json.Unmarshal(body, &s); err != nil || code != http.StatusOK {
		t.Fatalf("updater %s: /stats: %d %v %s", u.Name, code, err, body)
	}
	return s
}

func (u *Updater) ask(ctx context.Context, t *testing.T, method, path string, body []byte) (code int, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, u.control+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := u.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // only read from
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// Trust makes the extension trust another CA for the updater, and returns the one before.
func (u *Updater) Trust(ctx context.Context, t *testing.T, ca []byte) (before []byte) {
	t.Helper()
	object := &v1alpha1.Updater{}
	if err := u.client.Get(ctx, client.ObjectKey{Name: u.Name}, object); err != nil {
		t.Fatal(err)
	}
	before = object.Spec.Remote.CABundle
	Patch(ctx, t, u.client, object, map[string]any{"spec": map[string]any{"remote": map[string]any{"caBundle": ca}}})
	return before
}

// Patch applies a JSON merge patch. It carries no resource version: controllers write at the same
// time. While a webhook does not answer, because its manager was killed, it tries again.
func Patch(ctx context.Context, t *testing.T, c client.Client, object client.Object, change any) {
	t.Helper()
	data, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	const every, atMost = 200 * time.Millisecond, 30 * time.Second
	var last error
	err = wait.PollUntilContextTimeout(ctx, every, atMost, true,
		func(ctx context.Context) (bool, error) {
			last = c.Patch(ctx, object, client.RawPatch(types.MergePatchType, data))
			if apierrors.IsInternalError(last) && strings.Contains(last.Error(), "failed to call webhook") {
				return false, nil
			}
			return true, last
		})
	if err != nil {
		t.Fatalf("patching %T %s: %v", object, object.GetName(), cmp.Or(last, err))
	}
}

// AnnotateObject sets annotations; nil removes one.
func AnnotateObject(ctx context.Context, t *testing.T, c client.Client, object client.Object, annotations map[string]any) {
	t.Helper()
	Patch(ctx, t, c, object, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// Inside is an HTTP client that reaches the plane's own addresses.
func (p *Plane) Inside(transport *http.Transport) *http.Client {
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.DialContext(ctx, network, address)
	}
	return &http.Client{Transport: transport}
}
