// Package replicas holds what several replicas of the extension do beside each other.
package replicas

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

func TestMain(m *testing.M) { wire.Main(m) }

// patience is far beyond the lease.
const patience = 2 * time.Minute

// replicas are processes of the extension, each with a Pod in one namespace. They share a certificate, as
// the Pods of a Deployment do.
type replicas struct {
	plane              *wire.Plane
	namespace, certDir string
	authority          *loopback.Authority
	service            *service
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{plane: wire.Start(t), certDir: t.TempDir(), authority: loopback.NewAuthority(t, "replicas")}
	r.namespace = r.plane.Namespace(t)
	r.authority.Issue(t, "windlass", time.Now().Add(time.Hour)).WriteTo(t, r.certDir)
	r.service = newService(t, r.plane, r.namespace, r.authority)
	return r
}

// launch starts a replica and waits until it is Ready.
func (r *replicas) launch(t *testing.T, name string) *wire.Process {
	t.Helper()
	p := r.plane.Launch(t, "--leader-elect", "--namespace", r.namespace, "--pod", r.namespace+"/"+name, "--cert-dir", r.certDir)
	r.service.add(name, p)
	r.plane.Create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "windlass"}}},
	})
	p.AwaitReady(t)
	return p
}

// awaitActive waits until one Pod alone has the label.
func (r *replicas) awaitActive(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	active := map[string]bool{}
	err := wire.Await(ctx, r.plane.Client, &corev1.PodList{}, func(p *corev1.Pod) bool {
		delete(active, p.Name)
		if p.Labels[v1alpha1.ActiveLabel] == "true" {
			active[p.Name] = true
		}
		return len(active) == 1 && active[name]
	}, client.InNamespace(r.namespace))
	if err != nil {
		t.Fatalf("waiting until %s alone has the label: %v; it is on %v", name, err, active)
	}
}

// connects reports whether a process accepts connections.
func connects(t *testing.T, p *wire.Process) bool {
	t.Helper()
	dialer := net.Dialer{Timeout: patience}
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.Hooks, "https://"))
	return err == nil && connection.Close() == nil
}

// TestReplicas runs two replicas. Both are Ready. One serves, and its Pod alone has the label that Services
// select; the other refuses connections. The leader is told to end, killed and stopped in turn, and each time
// the other one takes over. Callers go through a Service. The log has for how long they got no answer.
func TestReplicas(t *testing.T) {
	r := newReplicas(t)
	a := r.launch(t, "a")
	r.awaitActive(t, "a")
	b := r.launch(t, "b")
	if !connects(t, a) || connects(t, b) {
		t.Errorf("connections: the leader %t, the other %t", connects(t, a), connects(t, b))
	}
	r.measure(t, "SIGTERM", "b", func() { a.Signal(t, syscall.SIGTERM) })
	r.launch(t, "c")
	r.measure(t, "SIGKILL", "c", func() { b.Kill(t) })
}

// TestStoppedLeader stops the leader until another one serves, and lets it continue. It answers no request
// with success from then on, also none that waited meanwhile, takes no label, and ends.
func TestStoppedLeader(t *testing.T) {
	r := newReplicas(t)
	a := r.launch(t, "a")
	r.awaitActive(t, "a")
	b := r.launch(t, "b")
	before := ask(t, r.service.client, a)
	if err := <-before; err != nil {
		t.Fatalf("the leader answers: %v", err)
	}
	r.measure(t, "SIGSTOP", "b", func() { a.Signal(t, syscall.SIGSTOP) })

	waiting := make([]<-chan error, 0, 20)
	for range cap(waiting) {
		waiting = append(waiting, ask(t, r.service.client, a))
	}
	a.Signal(t, syscall.SIGCONT)
	asked, admitted := 0, 0
	for _, answer := range waiting {
		asked++
		if <-answer == nil {
			admitted++
		}
	}
	for !a.Ended() {
		asked++
		if <-ask(t, r.service.client, a) == nil {
			admitted++
		}
	}
	t.Logf("the former leader got %d requests and answered %d", asked, admitted)
	if admitted != 0 {
		t.Errorf("the former leader answered %d of %d requests while another one leads", admitted, asked)
	}
	r.awaitActive(t, "b")
	if err := <-ask(t, r.service.client, b); err != nil {
		t.Errorf("the leader answers: %v", err)
	}
}

// TestUnlabelledLeader runs two replicas that may not patch Pods. The one that leads is not Ready, and
// the other one is. Once they may, the leader is labelled and Ready.
func TestUnlabelledLeader(t *testing.T) {
	r := newReplicas(t)
	restricted := *r
	restricted.plane = r.plane.Restricted(t)
	grant := func(group, resource string, verbs ...string) {
		t.Helper()
		name := strings.Join(append([]string{resource}, verbs...), "-")
		meta := metav1.ObjectMeta{Namespace: r.namespace, Name: name}
		r.plane.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs},
		}}, &rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{
				{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: wire.Account},
			},
		})
	}
	grant("coordination.k8s.io", "leases", "create", "get", "update", "watch")
	grant("", "pods", "get", "list")
	a := restricted.launch(t, "a")
	loopback.Eventually(t, "a leads", func() bool { return connects(t, a) })
	b := restricted.launch(t, "b")
	var reason string
	loopback.Eventually(t, "the leader is not Ready", func() bool {
		reason = readyz(t, a)
		return reason != "ok"
	})
	for _, part := range []string{r.namespace + "/a", `cannot patch resource "pods"`, "Fix: "} {
		if !strings.Contains(reason, part) {
			t.Errorf("the leader is not Ready: %s; want %q in it", reason, part)
		}
	}
	if reason := readyz(t, b); reason != "ok" {
		t.Errorf("the other one is not Ready: %s", reason)
	}
	grant("", "pods", "patch")
	r.awaitActive(t, "a")
	a.AwaitReady(t)
}

// readyz asks whether a replica finds the label of its Pod in order.
func readyz(t *testing.T, p *wire.Process) string {
	t.Helper()
	url := p.Health + "/readyz/active-label"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// measure ends a leader, waits until the next one has the label, and logs for how long callers of the Service
// got no answer.
func (r *replicas) measure(t *testing.T, how, next string, end func()) {
	t.Helper()
	calls := r.service.begin(t)
	calls.awaitAnswers(t)
	end()
	r.awaitActive(t, next)
	calls.awaitAnswers(t)
	for what, gap := range calls.stop() {
		t.Logf("%s: %s without an answer for %s", how, what, gap.Round(10*time.Millisecond))
	}
}

// ask sends a hook and an admission request to a process, and returns an error unless it answers one of them
// with success. It waits for the answer: a busy machine may take longer than a caller of the Service does.
func ask(t *testing.T, c *http.Client, p *wire.Process) <-chan error {
	t.Helper()
	c = &http.Client{Transport: c.Transport, Timeout: patience}
	answer := make(chan error, 1)
	go func() {
		hook := post(t.Context(), c, p.Hooks+discovery.Path(), discoveryRequest)
		if hook == nil {
			answer <- nil
			return
		}
		if guard := post(t.Context(), c, p.Guard+guardPath, review); guard != nil {
			answer <- fmt.Errorf("hook: %w; guard: %w", hook, guard)
			return
		}
		answer <- nil
	}()
	return answer
}
