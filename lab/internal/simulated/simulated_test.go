package simulated_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/remote"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
	"github.com/windlass-dev/windlass/lab/internal/simulated"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	machine = types.NamespacedName{Namespace: "ns", Name: "m-0"}
	cluster = types.NamespacedName{Namespace: "ns", Name: porttest.UpdaterCluster}
)

// world is a cluster with one node, and a clock.
type world struct {
	nodes *kubelets
	mu    sync.Mutex
	now   time.Time
}

func newWorld() *world {
	w := &world{nodes: &kubelets{Nodes: porttest.NewNodes()}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.nodes.Set(cluster, "node-m-0", porttest.ReadyNode(porttest.UpdaterFrom, w.now))
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func nodeName(_ context.Context, name types.NamespacedName) (string, error) {
	switch name.Name {
	case "m-0":
		return "node-m-0", nil
	case "new":
		return "", nil
	case "gone":
		return "node-gone", nil
	case "hidden":
		return "", errors.New("no connection")
	default:
		return "", fmt.Errorf("reading: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, name.Name))
	}
}

// kubelets are nodes whose kubelet version can be set.
type kubelets struct {
	*porttest.Nodes

	mu sync.Mutex
	// set counts the calls; fail is the error of the next one.
	set  int
	fail error
}

func (k *kubelets) SetKubelet(_ context.Context, cluster types.NamespacedName, name, kubelet string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set++
	if err := k.fail; err != nil {
		k.fail = nil
		return err
	}
	to, err := version.Parse(kubelet)
	if err != nil {
		return err
	}
	k.Edit(cluster, name, func(node *inplace.Node) { node.Kubelet = to })
	return nil
}

func (w *world) updater(t *testing.T, o simulated.Options) *simulated.Updater {
	t.Helper()
	o.Nodes, o.NodeName, o.Now = w.nodes, nodeName, w.clock
	updater, err := simulated.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = updater.Close() })
	return updater
}

func takes(d time.Duration) simulated.Behaviour {
	return simulated.Behaviour{Duration: metav1.Duration{Duration: d}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	servertest.TestUpdater(t, func(t *testing.T) servertest.World {
		t.Helper()
		w := newWorld()
		updater := w.updater(t, simulated.Options{Behaviour: takes(5 * time.Second)})
		return servertest.World{
			Updater: updater, Machine: machine, Advance: func() { w.pass(5 * time.Second) },
			Works: func() int { return w.nodes.set },
		}
	})
}

// TestContractOverHTTP asks through the updater for remote extensions, which must not change an answer.
func TestContractOverHTTP(t *testing.T) {
	t.Parallel()
	servertest.TestUpdater(t, func(t *testing.T) servertest.World {
		t.Helper()
		w := newWorld()
		server := servertest.Start(t, w.updater(t, simulated.Options{Behaviour: takes(time.Minute)}))
		caller, err := remote.New(updaters.ClientOptions{Name: "tested", URL: server.URL, CABundle: server.CA}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(caller.Close)
		return servertest.World{
			Updater: caller, Machine: machine, Advance: func() { w.pass(time.Minute) },
			Works: func() int { return w.nodes.set },
		}
	})
}

// ask asks for an update to UpdaterTo.
func ask(t *testing.T, u *simulated.Updater, operation string) inplace.Answer {
	t.Helper()
	return u.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, operation))
}

func expect(t *testing.T, got inplace.Answer, want inplace.Outcome, words string) {
	t.Helper()
	if got.Outcome != want || !strings.Contains(got.Message, words) {
		t.Errorf("the answer is %+v, want outcome %d and %q", got, want, words)
	}
}

func (w *world) kubelet(t *testing.T) string {
	t.Helper()
	return w.nodes.Node(t.Context(), cluster, "node-m-0").Kubelet.String()
}

func set(t *testing.T, u *simulated.Updater, behaviour string) {
	t.Helper()
	if err := u.SetBehaviour(json.RawMessage(behaviour)); err != nil {
		t.Fatal(err)
	}
}

func TestBehaviours(t *testing.T) {
	t.Parallel()
	t.Run("slow start", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		u := w.updater(t, simulated.Options{Behaviour: takes(time.Second)})
		set(t, u, `{"slowStart":"3s"}`)
		expect(t, ask(t, u, "a"), inplace.InProgress, "not started")
		if got := u.Stats(); got.Started != 0 {
			t.Errorf("stats are %+v", got)
		}
		w.pass(3 * time.Second)
		expect(t, ask(t, u, "a"), inplace.InProgress, "updating")
		w.pass(time.Second)
		expect(t, ask(t, u, "a"), inplace.Finishes, "done")
	})
	t.Run("fail, and the next attempt does it", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		u := w.updater(t, simulated.Options{Behaviour: simulated.Behaviour{Mode: simulated.Fail}})
		expect(t, ask(t, u, "a"), inplace.Fails, "as it was told to")
		set(t, u, `{"mode":"Normal"}`)
		expect(t, ask(t, u, "a"), inplace.Fails, "as it was told to")
		expect(t, ask(t, u, "b"), inplace.Finishes, "done")
	})
	t.Run("lie", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		u := w.updater(t, simulated.Options{Behaviour: simulated.Behaviour{Mode: simulated.Lie}})
		expect(t, ask(t, u, "a"), inplace.Finishes, "")
		if got := w.kubelet(t); got != porttest.UpdaterFrom {
			t.Errorf("the kubelet is at %s", got)
		}
		if got := u.Stats().Machines["ns/m-0"]; got.Completed != 0 || !got.Operations["a"].Lied {
			t.Errorf("stats are %+v", got)
		}
		set(t, u, `{"mode":"Normal"}`)
		expect(t, ask(t, u, "b"), inplace.Finishes, "")
		if got := w.kubelet(t); got != porttest.UpdaterTo {
			t.Errorf("after the truth, the kubelet is at %s", got)
		}
	})
	t.Run("stall", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		u := w.updater(t, simulated.Options{Behaviour: simulated.Behaviour{Mode: simulated.Stall}})
		expect(t, ask(t, u, "a"), inplace.InProgress, "")
		w.pass(time.Hour)
		expect(t, ask(t, u, "a"), inplace.InProgress, "still working")
		set(t, u, `{"mode":"Normal"}`)
		expect(t, ask(t, u, "a"), inplace.Finishes, "")
	})
	t.Run("hang", func(t *testing.T) {
		t.Parallel()
		u := newWorld().updater(t, simulated.Options{Behaviour: simulated.Behaviour{Mode: simulated.Hang}})
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan inplace.Answer)
		go func() { answer <- u.UpdateMachine(ctx, porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")) }()
		select {
		case got := <-answer:
			t.Fatalf("the answer is %+v", got)
		default:
		}
		cancel()
		expect(t, <-answer, inplace.Unknown, "")
	})
	t.Run("wrong answer", func(t *testing.T) {
		t.Parallel()
		u := newWorld().updater(t, simulated.Options{Behaviour: simulated.Behaviour{Mode: simulated.WrongAnswer}})
		request := porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo)
		patches, err := u.CanUpdateMachine(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		encode := func(v any) json.RawMessage {
			content, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
		coverage, err := cover.New(cover.Machine, cover.Objects{Machine: encode(request.Current.Machine)}, cover.Objects{Machine: encode(request.Desired.Machine)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := coverage.Apply(cover.Updater{Name: "u"}, patches); err == nil {
			t.Error("the patches are right")
		}
	})
}

func TestFailureRate(t *testing.T) {
	t.Parallel()
	failures := func(seed uint64) (failed int) {
		w := newWorld()
		u := w.updater(t, simulated.Options{Behaviour: simulated.Behaviour{FailureRate: 0.3}, Seed: seed})
		for i := range 1000 {
			w.nodes.Set(cluster, "node-m-0", porttest.ReadyNode(porttest.UpdaterFrom, w.now))
			if ask(t, u, fmt.Sprint("op-", i)).Outcome == inplace.Fails {
				failed++
			}
		}
		return failed
	}
	first := failures(1)
	// The binomial distribution's standard deviation is 14.5.
	if first < 240 || first > 360 {
		t.Errorf("%d of 1000 failed, want about 300", first)
	}
	if again := failures(1); again != first {
		t.Errorf("with the same seed, %d failed and then %d", first, again)
	}
}

func TestDoneWithoutWork(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.nodes.Set(cluster, "node-m-0", porttest.ReadyNode(porttest.UpdaterTo, w.now))
	u := w.updater(t, simulated.Options{Behaviour: takes(time.Hour)})
	expect(t, ask(t, u, "a"), inplace.Finishes, "nothing to do")
	want := simulated.Stats{Machines: map[string]simulated.MachineStats{
		"ns/m-0": {Operations: map[string]simulated.OperationStats{"a": {Asked: 1}}},
	}}
	if diff := cmp.Diff(want, u.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestMachinesWithoutNode(t *testing.T) {
	t.Parallel()
	u := newWorld().updater(t, simulated.Options{})
	for name, want := range map[string]struct {
		outcome inplace.Outcome
		words   string
	}{
		"nobody": {inplace.Fails, "there is no Machine ns/nobody"},
		"new":    {inplace.Fails, "has no node yet"},
		"gone":   {inplace.Fails, "there is no node node-gone in cluster ns/cluster"},
		"hidden": {inplace.Unknown, "no connection"},
	} {
		got := u.UpdateMachine(t.Context(), porttest.UpdateMachine(types.NamespacedName{Namespace: "ns", Name: name}, porttest.UpdaterTo, "a"))
		expect(t, got, want.outcome, want.words)
	}
	bad := porttest.UpdateMachine(machine, "latest", "a")
	expect(t, u.UpdateMachine(t.Context(), bad), inplace.Fails, "spec.version")
}

func TestClusterAway(t *testing.T) {
	t.Parallel()
	w := newWorld()
	u := w.updater(t, simulated.Options{})
	w.nodes.SetUnreachable(cluster, "no route")
	expect(t, ask(t, u, "a"), inplace.Unknown, "no route")
	w.nodes.SetUnreachable(cluster, "")
	w.nodes.fail = errors.New("conflict")
	expect(t, ask(t, u, "a"), inplace.InProgress, "conflict")
	expect(t, ask(t, u, "a"), inplace.Finishes, "")
}

func TestClaims(t *testing.T) {
	t.Parallel()
	claim, err := simulated.ParseClaim("bootstrap:/spec/files")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	u := w.updater(t, simulated.Options{Claims: []cover.Pointer{claim}})
	request := porttest.CanUpdateMachineSet(machine, porttest.UpdaterFrom, porttest.UpdaterTo)
	desired, ok := request.Desired.BootstrapConfigTemplate.Object.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("the template is a %T", request.Desired.BootstrapConfigTemplate.Object)
	}
	files := []any{map[string]any{"path": "/etc/a"}}
	if err := unstructured.SetNestedField(desired.Object, files, "spec", "template", "spec", "files"); err != nil {
		t.Fatal(err)
	}
	patches, err := u.CanUpdateMachineSet(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	want := cover.Patches{Bootstrap: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"template":{"spec":{"files":[{"path":"/etc/a"}]}}}}`)}}
	if diff := cmp.Diff(want, patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	// It does not touch the kubelet, and remembers what it applied.
	expect(t, ask(t, u, "a"), inplace.Finishes, "done")
	expect(t, ask(t, u, "b"), inplace.Finishes, "nothing to do")
	if got := w.nodes.set; got != 0 || u.Stats().Completed != 1 {
		t.Errorf("the kubelet was set %d times, stats are %+v", got, u.Stats())
	}
}

func TestParseClaimRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "machine", "machine:", "machine:/spec", "machine:/spec/", "machine:/spec//a", "machine:/metadata/name", "node:/spec/a", "Machine:/spec/a"} {
		if got, err := simulated.ParseClaim(s); err == nil {
			t.Errorf("%q gave %+v", s, got)
		}
	}
}

func TestBadBehaviours(t *testing.T) {
	t.Parallel()
	u := newWorld().updater(t, simulated.Options{})
	for _, s := range []string{``, `[]`, `{"mode":"Dance"}`, `{"failureRate":2}`, `{"failureRate":-1}`, `{"duration":"-1s"}`, `{"duration":"9999h"}`, `{"speed":1}`} {
		if err := u.SetBehaviour(json.RawMessage(s)); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	expect(t, ask(t, u, "a"), inplace.Finishes, "done")
}

// TestRestart restarts the updater after every answer, and cuts the state file short as a crash would.
func TestRestart(t *testing.T) {
	t.Parallel()
	w, file := newWorld(), filepath.Join(t.TempDir(), "state")
	restarted := func() *simulated.Updater {
		return w.updater(t, simulated.Options{Behaviour: takes(5 * time.Second), StateFile: file})
	}
	expect(t, ask(t, restarted(), "a"), inplace.InProgress, "")
	w.pass(4 * time.Second)
	expect(t, ask(t, restarted(), "a"), inplace.InProgress, "")
	w.pass(time.Second)
	expect(t, ask(t, restarted(), "a"), inplace.Finishes, "done")
	u := restarted()
	expect(t, ask(t, u, "a"), inplace.Finishes, "done")
	if got := u.Stats(); got.Started != 1 || got.Completed != 1 || w.nodes.set != 1 {
		t.Errorf("stats are %+v", got)
	}

	// The last record, that the work is done, did not reach the disk as a whole.
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content[:len(content)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	u = restarted()
	expect(t, ask(t, u, "a"), inplace.Finishes, "done")
	if got := u.Stats(); got.Started != 1 || got.Completed != 1 || w.nodes.set != 1 {
		t.Errorf("after a lost record, stats are %+v", got)
	}
	// And once more, from a file that was fixed.
	if got := restarted().Stats(); got.Completed != 1 {
		t.Errorf("from the fixed file, stats are %+v", got)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld()
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("not JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]simulated.Options{
		"no nodes":           {NodeName: nodeName},
		"no names":           {Nodes: w.nodes},
		"a bad claim":        {Nodes: w.nodes, NodeName: nodeName, Claims: []cover.Pointer{{Part: cover.PartMachine, Path: "/status"}}},
		"a bad rate":         {Nodes: w.nodes, NodeName: nodeName, Behaviour: simulated.Behaviour{FailureRate: 2}},
		"a broken file":      {Nodes: w.nodes, NodeName: nodeName, StateFile: garbage},
		"another's file":     {Nodes: w.nodes, NodeName: nodeName, StateFile: other},
		"a file in no place": {Nodes: w.nodes, NodeName: nodeName, StateFile: filepath.Join(garbage, "state")},
	} {
		if _, err := simulated.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if content, err := os.ReadFile(other); err != nil || string(content) != "precious" {
		t.Errorf("another's file holds %q, %v", content, err)
	}
}
