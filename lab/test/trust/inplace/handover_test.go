package inplace

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// agentVariable has the URL of the agent when this test's binary runs as the command of an implementer.
const agentVariable = "WINDLASS_TEST_AGENT"

// runCommand is the command that updates a host: it asks the agent, and ends as that says.
func runCommand(agent string) int {
	response, err := http.Get(agent + "?" + url.Values{"host": {os.Args[1]}, "version": {os.Args[2]}}.Encode())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// implementer is examples/handover as a process of its own, which knows nothing of Windlass but api.
type implementer struct {
	// began receives a command for each that begins. It ends when it is told to, or its process is gone.
	began chan command
	// holdFile keeps machines from beginning while it exists.
	holdFile string
	command  *exec.Cmd
	start    func()
}

type command struct {
	host, version string
	end           chan struct{}
}

// handOver starts an implementer for the machines of a pool, in the order of their updates, and registers it.
func handOver(t *testing.T, plane *wire.Plane, pool *wire.Pool, machines ...string) *implementer {
	t.Helper()
	dir, port := t.TempDir(), loopback.FreePort(t)
	i := &implementer{began: make(chan command, 8), holdFile: filepath.Join(dir, "hold")}
	agent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c := command{host: r.FormValue("host"), version: r.FormValue("version"), end: make(chan struct{})}
		i.began <- c
		select {
		case <-c.end:
			pool.Workload.SetNode(c.host, c.version)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		agent.CloseClientConnections() // The command of a process that was killed runs on.
		agent.Close()
	})
	program := buildExample(t, dir)
	authority := loopback.NewAuthority(t, "implementer")
	authority.Issue(t, "implementer", time.Now().Add(time.Hour)).WriteTo(t, dir)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var inventory []map[string]string
	for _, name := range machines {
		inventory = append(inventory, map[string]string{"machine": pool.Namespace + "/" + name, "host": name})
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=%q exec %q \"$@\"\n", agentVariable, agent.URL, own)
	for file, content := range map[string][]byte{"inventory.json": mustJSON(t, inventory), "update.sh": []byte(script)} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	i.start = func() {
		t.Helper()
		//nolint:usetesting // The cleanup below ends it, after the test's context.
		i.command = exec.CommandContext(context.Background(), program, "--port", strconv.Itoa(port), "--cert-dir", dir,
			"--kubeconfig", plane.Kubeconfig, "--inventory", filepath.Join(dir, "inventory.json"), "--state-dir", filepath.Join(dir, "state"),
			"--command", filepath.Join(dir, "update.sh"), "--hold-file", i.holdFile)
		i.command.Stderr = os.Stderr
		if err := i.command.Start(); err != nil {
			t.Fatal(err)
		}
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
		loopback.Eventually(t, "the implementer listens", func() bool {
			connection, err := dialer.DialContext(t.Context(), "tcp", address)
			return err == nil && connection.Close() == nil
		})
	}
	i.start()
	t.Cleanup(i.kill)
	plane.Create(t, &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: pool.Namespace + "-handover"},
		Spec: v1alpha1.UpdaterSpec{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": pool.Namespace}},
			Remote: &v1alpha1.RemoteUpdater{
				Protocol: v1alpha1.HandOverProtocol, URL: "https://" + address, CABundle: authority.PEM, TimeoutSeconds: 5, FailurePolicy: v1alpha1.UpdaterFail,
			},
		},
	})
	return i
}

// kill ends the process as a crash does.
func (i *implementer) kill() {
	_ = i.command.Process.Kill() // It may have ended.
	_ = i.command.Wait()         // It was killed.
}

// next waits for a command to begin.
func (i *implementer) next(t *testing.T) command {
	t.Helper()
	select {
	case c := <-i.began:
		return c
	case <-time.After(patience):
		t.Fatalf("no command has begun for %s", patience)
		return command{}
	}
}

// patience is how long a test waits for what must happen; far beyond what a busy machine needs.
const patience = 3 * time.Minute

// buildExample builds the example, and holds that it imports nothing of Windlass but api.
func buildExample(t *testing.T, dir string) string {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	const example = "./examples/handover"
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports " "}}`, example)
	list.Dir = source
	imports, err := list.Output()
	if err != nil {
		t.Fatalf("listing what the example imports: %v", err)
	}
	for path := range strings.FieldsSeq(string(imports)) {
		const module = "github.com/windlass-dev/windlass/"
		if strings.HasPrefix(path, module) && !strings.HasPrefix(path, module+"api/") {
			t.Errorf("the example imports %s", path)
		}
	}
	program := filepath.Join(dir, "handover")
	if err := programs.Compile(t.Context(), source, program, example); err != nil {
		t.Fatal(err)
	}
	return program
}

// awaitMachine waits until a machine of a pool is accepted.
func awaitMachine(t *testing.T, plane *wire.Plane, pool *wire.Pool, what string, accept func(*clusterv1.Machine) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wire.Await(ctx, plane.Client, &clusterv1.MachineList{}, accept, client.InNamespace(pool.Namespace)); err != nil {
		machines := &clusterv1.MachineList{}
		_ = plane.Client.List(t.Context(), machines, client.InNamespace(pool.Namespace)) // It is for the message only.
		t.Fatalf("waiting until %s: %v; the Machines are %s", what, err, mustJSON(t, machines.Items))
	}
}

// updating returns what Cluster API shows of the update of a Machine.
func updating(m *clusterv1.Machine) string {
	if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition); c != nil {
		return c.Message
	}
	return ""
}

// TestHandOverUpgradesAPool runs examples/handover beside `windlass manager`, in which Cluster API's own controllers ask for
// updates. The implementer holds the pool, chooses another order than that of the names, shows its progress on the
// Machine, is killed in the middle of an update, and completes both after its restart.
func TestHandOverUpgradesAPool(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a", "b")
	i := handOver(t, plane, pool, "b", "a")
	if err := os.WriteFile(i.holdFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, name := range []string{"a", "b"} {
		provisioned(t, plane, pool, name)
		uids[name] = pool.Machine(t, name).UID
	}
	pauseOwners(t, plane, pool)
	manager := runManager(t, plane, pool)
	decide(t, manager, pool)
	pool.Move(t, "a")
	pool.Move(t, "b")
	awaitMachine(t, plane, pool, "the implementer holds the pool", func(m *clusterv1.Machine) bool {
		return strings.Contains(updating(m), "lets no machine begin: the file "+i.holdFile+" exists")
	})
	if err := os.Remove(i.holdFile); err != nil {
		t.Fatal(err)
	}

	first := i.next(t)
	if first.host != "b" || first.version != wire.To {
		t.Errorf("the first command is %+v", first)
	}
	awaitMachine(t, plane, pool, "the progress is shown", func(m *clusterv1.Machine) bool {
		return m.Name == "b" && strings.Contains(updating(m), "updating b to "+wire.To)
	})
	if _, begun := pool.Machine(t, "a").Annotations[v1alpha1.UpdateProgressAnnotation]; begun {
		t.Error("the other machine has begun, too: maxInFlight is 1")
	}
	close(first.end)

	second := i.next(t)
	i.kill()
	i.start()
	again := i.next(t)
	if second.host != "a" || again.host != "a" {
		t.Errorf("the commands are %+v and %+v", second, again)
	}
	close(again.end)
	for _, name := range []string{"a", "b"} {
		awaitMachine(t, plane, pool, name+" is updated", func(m *clusterv1.Machine) bool {
			_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
			return m.Name == name && !marked && m.Annotations[pendingHooks] == ""
		})
		m := pool.Machine(t, name)
		var last struct {
			Done []struct{ Attempts int }
		}
		if err := json.Unmarshal([]byte(m.Annotations[v1alpha1.LastUpdateAnnotation]), &last); err != nil || len(last.Done) != 1 || last.Done[0].Attempts != 1 {
			t.Errorf("the last update of %s is %s, want one attempt", name, m.Annotations[v1alpha1.LastUpdateAnnotation])
		}
		if m.UID != uids[name] {
			t.Errorf("Machine %s is another one", name)
		}
	}
}

// TestHandOverDeclines: the implementer declines the whole group with a reason, and the policy's fallback decides.
func TestHandOverDeclines(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a", "b")
	handOver(t, plane, pool, "a")
	extension := plane.Run(t)
	const reason = "declines: the Machine %s/b is not in the inventory"
	answer := extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t))
	want := fmt.Sprintf(reason, pool.Namespace)
	if answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, want) {
		t.Errorf("without a fallback: %+v, want %q", answer, want)
	}
	editPolicy(t, plane, pool, `{"spec":{"fallback":"RollingUpdate"}}`)
	loopback.Eventually(t, "machines are replaced", func() bool {
		answer := extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t))
		return answer.Status == runtimehooksv1.ResponseStatusSuccess && strings.Contains(answer.Message, "replaced") && strings.Contains(answer.Message, want)
	})
}

// TestHandOverDoesNotEnd: an attempt whose time is over is cancelled, and its command ends; an implementer that answers
// nothing any longer fails the update when the times for its choice and for the attempt are over.
func TestHandOverDoesNotEnd(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a", "b")
	i := handOver(t, plane, pool, "a", "b")
	extension := plane.Run(t)
	decide(t, extension, pool)

	pool.Move(t, "a")
	for begun := false; !begun; {
		answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a"))
		if answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds == 0 {
			t.Fatalf("UpdateMachine answers %+v", answer)
		}
		select {
		case <-i.began:
			begun = true
		case <-time.After(time.Duration(answer.RetryAfterSeconds) * time.Second):
		}
	}
	// An edit counts at once: the time of the attempt is over.
	editPolicy(t, plane, pool, `{"spec":{"attemptTimeoutSeconds":1,"maxInFlight":2}}`)
	if shown := fails(t, extension, pool, "a"); !strings.Contains(shown, "there was no result after 1s") {
		t.Errorf("the command did not end in time, and the Machine shows %q", shown)
	}
	awaitMachine(t, plane, pool, "the mark of the cancelled attempt is there", func(m *clusterv1.Machine) bool {
		return m.Name == "a" && strings.HasSuffix(m.Annotations[v1alpha1.UpdateFailedAnnotation], ": cancelled: there was no result after 1s")
	})

	if err := i.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pool.Move(t, "b")
	updatingSince(t, plane, pool, "b", time.Now())
	if shown := fails(t, extension, pool, "b"); !strings.Contains(shown, "no result after 1s; last answer: updater "+pool.Namespace+"-handover at https://") {
		t.Errorf("the implementer answers nothing, and the Machine shows %q", shown)
	}
}

// editPolicy changes the policy of a pool.
func editPolicy(t *testing.T, plane *wire.Plane, pool *wire.Pool, patch string) {
	t.Helper()
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: "in-place"}}
	if err := plane.Client.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// fails calls UpdateMachine as Cluster API does, until the update has failed and its Machine shows it, and returns what that shows.
// The implementer may write its mark at the moment of the failure. The condition then conflicts, and comes with the next call.
func fails(t *testing.T, extension *wire.Process, pool *wire.Pool, name string) string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, name))
		failed := answer.Status == runtimehooksv1.ResponseStatusFailure
		c := meta.FindStatusCondition(pool.Machine(t, name).Status.Conditions, v1alpha1.UpdateBlockedCondition)
		switch {
		case failed && c != nil && c.Reason == v1alpha1.UpdateFailedReason:
			return c.Message
		case time.Now().After(deadline), !failed && answer.RetryAfterSeconds == 0:
			t.Fatalf("UpdateMachine answers %+v, and the condition of Machine %s is %+v", answer, name, c)
		case !failed:
			t.Logf("UpdateMachine answers %+v", answer)
			extension.Wait(t, answer)
		}
	}
}

// updatingSince sets the condition by which Cluster API shows since when a Machine is being updated.
func updatingSince(t *testing.T, plane *wire.Plane, pool *wire.Pool, name string, since time.Time) {
	t.Helper()
	m := pool.Machine(t, name)
	before := client.MergeFrom(m.DeepCopy())
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineInPlaceUpdatingReason,
		LastTransitionTime: metav1.NewTime(since),
	})
	if err := plane.Client.Status().Patch(t.Context(), m, before); err != nil {
		t.Fatal(err)
	}
}
