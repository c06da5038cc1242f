package statuscmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/test/apiserver"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const watchedObjectsYAML = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
spec: {controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: prod-cp}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: prod-cp, namespace: team-a}
spec: {version: v1.32.1}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md-0, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod}}
spec: {clusterName: prod, template: {spec: {version: v1.32.1}}}
---
apiVersion: windlass.dev/v1alpha1
kind: UpdatePolicy
metadata: {name: other, namespace: team-b}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-1, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod, cluster.x-k8s.io/deployment-name: md-0}}
spec: {clusterName: prod, version: v1.31.2}
`

// TestStatusWatch follows a cluster while it changes: the status first, then a line for each change and nothing else.
func TestStatusWatch(t *testing.T) {
	api, kubeconfig := apiserver.Start(t, watchedObjectsYAML)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		cmd := New() //nolint:contextcheck // A command gets its context when it runs.
		cmd.SetArgs([]string{"prod", "--watch", "--kubeconfig", kubeconfig})
		cmd.SetOut(writer)
		err := cmd.ExecuteContext(ctx)
		ended <- errors.Join(err, writer.Close())
	}()
	lines := bufio.NewScanner(reader)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the output ends before %q: %v", want, <-ended)
		}
		if got := lines.Text(); !strings.Contains(got, want) {
			t.Errorf("the next line is %q, want %q", got, want)
		}
	}
	next("0 of 1 machine is up to date; 1 waiting.")
	next("")
	next("| Group ")
	next("|---")
	next("| control plane")
	next("| md-0          | no UpdatePolicy: replace | 1 waiting |")

	put := func(documents string) {
		t.Helper()
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(documents), &o.Object); err != nil {
			t.Fatal(err)
		}
		api.Put(o)
	}
	put(`{apiVersion: windlass.dev/v1alpha1, kind: UpdatePolicy, metadata: {name: all, namespace: team-a}, spec: {strategy: ExternalUpdate, targets: [{machineDeployments: [md-0]}]}}`)
	next("MachineDeployment md-0: all: in place only")
	put(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: other, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: another}}}`)
	put(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m-1, namespace: team-a,
labels: {cluster.x-k8s.io/cluster-name: prod, cluster.x-k8s.io/deployment-name: md-0}, annotations: {in-place-updates.internal.cluster.x-k8s.io/update-in-progress: ""}},
spec: {clusterName: prod, version: v1.31.2}}`)
	put(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m-1, namespace: team-a,
labels: {cluster.x-k8s.io/cluster-name: prod, cluster.x-k8s.io/deployment-name: md-0},
annotations: {in-place-updates.internal.cluster.x-k8s.io/update-in-progress: "", runtime.cluster.x-k8s.io/pending-hooks: UpdateMachine}},
spec: {clusterName: prod, version: v1.32.1}}`)
	next("Machine m-1 (md-0): Queued, to v1.32.1")
	put(`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: prod-cp, namespace: team-a}, spec: {version: v1.32.1},
status: {conditions: [{type: windlass.dev/UpdateBlocked, status: "True", reason: NotCovered, message: Machine /spec/version}]}}`)
	next("KubeadmControlPlane prod-cp is blocked: NotCovered: Machine /spec/version")

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("an interrupted watch ends with %v", err)
	}
}

// TestStatusScreen checks what each kind of output gets when a status changes, and when it does not.
func TestStatusScreen(t *testing.T) {
	before := status.Report{Namespace: "team-a", Cluster: "prod", Machines: []status.Machine{{Name: "m", Group: "md-0", State: status.Waiting}}}
	after := before
	after.Machines = []status.Machine{{Name: "m", Group: "md-0", State: status.UpToDate, Version: "v1.32.1"}}
	terminal := func() (width, height int) { return 40, 10 }
	for _, test := range []struct {
		name   string
		screen screen
		first  string
		second string
	}{
		{"lines", screen{format: "table"}, "There are no machines.\n\n| Group |", "00:00:00 Machine m (md-0): UpToDate, v1.32.1\n"},
		{"terminal", screen{format: "table", size: terminal}, strings.Repeat("\n", 9) + home + "There are no machines." + eraseLine + "\n", home},
		{"JSON", screen{format: "json"}, `{"namespace":"team-a",`, `{"namespace":"team-a",`},
		{"YAML", screen{format: "yaml"}, "blocked: []\n", "---\nblocked: []\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			s := test.screen
			s.out = &out
			for _, step := range []struct {
				report status.Report
				want   string
			}{{before, test.first}, {before, ""}, {after, test.second}, {after, ""}} {
				out.Reset()
				if err := s.show(step.report, midnight); err != nil {
					t.Fatal(err)
				}
				if got := out.String(); !strings.HasPrefix(got, step.want) || (step.want == "" && got != "") {
					t.Errorf("show writes %q, want %q first", got, step.want)
				}
			}
		})
	}
}

// readerOf reads a Cluster from a server, without a cache.
func readerOf(t *testing.T, server *httptest.Server, signal func()) *reader {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(apiserver.Kubeconfig(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := cli.NewKubeFlags()
	flags.KubeConfig = kubeconfig
	m, namespace, err := management.Connect(flags)
	if err != nil {
		t.Fatal(err)
	}
	return newReader(m, m, types.NamespacedName{Namespace: namespace, Name: "prod"}, signal)
}

// TestOutage checks that a Cluster is followed while the API server cannot answer for what is not watched, and what is
// said of that.
func TestOutage(t *testing.T) {
	handler, _ := apiserver.Start(t, upgradingObjectsYAML)
	down := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down && strings.Contains(r.URL.Path, "clusterclasses") {
			http.Error(w, "etcd has no leader", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	answered := make(chan struct{}, 1)
	r := readerOf(t, server, func() { answered <- struct{}{} })
	down = true
	if _, err := r.read(t.Context(), midnight); err == nil {
		t.Error("the first read during an outage returns no error")
	}
	down = false
	before, err := r.read(t.Context(), midnight)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := screen{out: &out, format: "table"}
	for i, step := range []struct {
		down bool
		want string
	}{
		{true, "00:00:00 The management cluster does not answer, so this may be old; it is asked again: "},
		{true, ""},
		{false, "00:00:00 The management cluster answers again\n"},
		{false, ""},
	} {
		down = step.down
		now := midnight.Add(time.Duration(i+1) * time.Minute)
		if _, err := r.read(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		<-answered
		after, err := r.read(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(status.Compute(before, midnight), status.Compute(after, midnight)); diff != "" {
			t.Errorf("step %d: the status differs (-before +after):\n%s", i, diff)
		}
		out.Reset()
		if err := s.showOutage(r.outage, midnight); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasPrefix(got, step.want) || (step.want == "") != (got == "") {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestFrame checks that a text fits the terminal, whatever its size.
func TestFrame(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n"
	for _, test := range []struct {
		rows int
		want string
	}{
		{rows: 10, want: home + "1" + eraseLine + "\n2" + eraseLine + "\n3" + eraseLine + "\n4" + eraseLine + "\n5" + eraseLine + "\n" + eraseRest},
		{rows: 6, want: home + "1" + eraseLine + "\n2" + eraseLine + "\n3" + eraseLine + "\n4" + eraseLine + "\n5" + eraseLine + "\n" + eraseRest},
		{rows: 5, want: home + "1" + eraseLine + "\n2" + eraseLine + "\n3" + eraseLine + "\n… 2 more lines" + eraseLine + "\n" + eraseRest},
		{rows: 0, want: home + "1" + eraseLine + "\n… 4 more lines" + eraseLine + "\n" + eraseRest},
	} {
		if diff := cmp.Diff(test.want, frame(text, test.rows)); diff != "" {
			t.Errorf("%d rows (-want +got):\n%s", test.rows, diff)
		}
	}
}

// TestWaitDraws checks that ages on a terminal grow while nothing changes, and that a change counts after the rest.
func TestWaitDraws(t *testing.T) {
	var out bytes.Buffer
	tick, rested, changed := make(chan time.Time), make(chan time.Time), make(chan struct{}, 1)
	s := screen{
		out: &out, format: "table", tick: tick, shown: &status.Report{Cluster: "prod"},
		size: func() (width, height int) { return 40, 10 },
	}
	changed <- struct{}{}
	ended := make(chan error)
	go func() { ended <- s.wait(t.Context(), rested, changed, nil) }()
	// Whoever receives the second has not returned after the first.
	tick <- midnight
	tick <- midnight
	rested <- midnight
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), home+"There are no machines.") {
		t.Errorf("a second later %q is drawn", out.String())
	}
}

const upgradingObjectsYAML = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class, namespace: classes}
spec: {kubernetesVersions: [v1.31.2, v1.32.1]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: prod-cp}
  topology: {classRef: {name: class, namespace: classes}, version: v1.32.1}
status:
  conditions: [{type: ControlPlaneInitialized, status: "True", reason: Initialized, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: prod-cp, namespace: team-a}
spec: {version: v1.32.1, replicas: 1}
status: {version: v1.31.2}
`

// TestStatusWatchEnds checks that a watch ends, without an error, when the upgrade that it has seen is done.
func TestStatusWatchEnds(t *testing.T) {
	api, kubeconfig := apiserver.Start(t, upgradingObjectsYAML)
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		cmd := New()
		cmd.SetArgs([]string{"prod", "--watch", "--kubeconfig", kubeconfig})
		cmd.SetOut(writer)
		err := cmd.ExecuteContext(t.Context())
		ended <- errors.Join(err, writer.Close())
	}()
	var seen []string
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if strings.HasPrefix(lines.Text(), "| control plane") {
			o := &unstructured.Unstructured{}
			document := `{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: prod-cp, namespace: team-a},
spec: {version: v1.32.1, replicas: 1}, status: {version: v1.32.1}}`
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				t.Fatal(err)
			}
			api.Put(o)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the watch ends with %v", err)
	}
	if len(seen) == 0 || !strings.HasPrefix(seen[0], "The upgrade to v1.32.1 is under way") {
		t.Errorf("the first lines are %q, want the upgrade", seen)
	}
	isEnd := func(line string) bool {
		return strings.HasSuffix(line, "Upgrade: UpToDate, to v1.32.1: everything is at v1.32.1")
	}
	if !slices.ContainsFunc(seen, isEnd) {
		t.Errorf("the lines are %q, want the end of the upgrade", seen)
	}
}

// TestSeenIsNoChange: that a controller was seen again causes no document.
func TestSeenIsNoChange(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := screen{out: &out, format: "json"}
	for i, state := range []status.ChainState{status.ChainHeld, status.ChainHeld, status.ChainUpgrading} {
		out.Reset()
		report := status.Report{Chain: &status.Chain{State: state, EngineSeen: midnight.Add(time.Duration(i) * time.Second)}}
		if err := s.show(report, midnight); err != nil {
			t.Fatal(err)
		}
		if wrote := out.Len() > 0; wrote != (i != 1) {
			t.Errorf("document %d is written: %t", i, wrote)
		}
	}
}

// TestSlowServer: while the API server does not answer for what is not watched, what is watched is shown.
func TestSlowServer(t *testing.T) {
	handler, _ := apiserver.Start(t, upgradingObjectsYAML)
	var slow atomic.Bool
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() && strings.Contains(r.URL.Path, "clusterclasses") {
			asked <- struct{}{}
			<-answer
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	answered := make(chan struct{})
	r := readerOf(t, server, func() { close(answered) })
	before, err := r.read(t.Context(), midnight)
	if err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	for i := range 3 {
		after, err := r.read(t.Context(), midnight.Add(time.Duration(i+1)*contextAge))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(status.Compute(before, midnight), status.Compute(after, midnight)); diff != "" {
			t.Errorf("read %d: the status differs (-before +after):\n%s", i, diff)
		}
	}
	if again := r.again(before, midnight); again != nil || !r.asking {
		t.Error("it asks again before there was an answer")
	}
	<-asked // once
	close(answer)
	<-answered
	if _, err := r.read(t.Context(), midnight.Add(contextAge)); err != nil || r.asking {
		t.Errorf("the answer is taken: %t, %v", !r.asking, err)
	}
}
