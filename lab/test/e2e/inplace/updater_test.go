package inplace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// updater is a simulated updater that runs on a plane, and its control.
type updater struct {
	name    string
	http    *http.Client
	control string
	client  client.Client
}

// updater starts and registers a simulated updater. What it did outlives its process.
func (p *plane) updater(ctx context.Context, t *testing.T, u setup.SimulatedUpdater) *updater {
	t.Helper()
	u.StateFile = filepath.Join(t.TempDir(), u.Name+".jsonl")
	child, err := setup.RegisterUpdater(ctx, p.Plane.Plane, p.Programs.Lab, u)
	if err != nil {
		t.Fatal(err)
	}
	return &updater{
		name: u.Name, http: p.inside(&http.Transport{}), client: p.client,
		control: fmt.Sprintf("http://127.0.0.1:%d", child.Ports[setup.StatsPort]),
	}
}

// behave changes the updater's behaviour, by the JSON of POST /behaviour.
func (u *updater) behave(ctx context.Context, t *testing.T, behaviour string) {
	t.Helper()
	if code, body := u.ask(ctx, t, http.MethodPost, "/behaviour", []byte(behaviour)); code != http.StatusNoContent {
		t.Fatalf("updater %s: %s: %d %s", u.name, behaviour, code, body)
	}
}

// stats are the parts of GET /stats that tests look at.
type stats struct {
	Decisions int                     `json:"decisions"`
	Machines  map[string]machineStats `json:"machines"`
}

type machineStats struct {
	Started    int                       `json:"started"`
	Completed  int                       `json:"completed"`
	Operations map[string]operationStats `json:"operations"`
}

type operationStats struct {
	Asked     int    `json:"asked"`
	Started   int    `json:"started"`
	Completed int    `json:"completed"`
	Failed    string `json:"failed"`
	Lied      bool   `json:"lied"`
}

func (u *updater) stats(ctx context.Context, t *testing.T) stats {
	t.Helper()
	code, body := u.ask(ctx, t, http.MethodGet, "/stats", nil)
	var s stats
	if err := json.Unmarshal(body, &s); err != nil || code != http.StatusOK {
		t.Fatalf("updater %s: /stats: %d %v %s", u.name, code, err, body)
	}
	return s
}

func (u *updater) ask(ctx context.Context, t *testing.T, method, path string, body []byte) (code int, answer []byte) {
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

// trust makes the extension trust another CA for the updater, and returns the one before.
func (u *updater) trust(ctx context.Context, t *testing.T, ca []byte) (before []byte) {
	t.Helper()
	object := &v1alpha1.Updater{}
	if err := u.client.Get(ctx, client.ObjectKey{Name: u.name}, object); err != nil {
		t.Fatal(err)
	}
	before = object.Spec.Remote.CABundle
	patch(ctx, t, u.client, object, map[string]any{"spec": map[string]any{"remote": map[string]any{"caBundle": ca}}})
	return before
}

// patch applies a JSON merge patch. It carries no resource version: controllers write at the same time.
func patch(ctx context.Context, t *testing.T, c client.Client, object client.Object, change any) {
	t.Helper()
	data, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
		t.Fatalf("patching %T %s: %v", object, object.GetName(), err)
	}
}

// annotate sets annotations; nil removes one.
func annotate(ctx context.Context, t *testing.T, c client.Client, object client.Object, annotations map[string]any) {
	t.Helper()
	patch(ctx, t, c, object, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}
