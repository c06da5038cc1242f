// Package replicas holds what several replicas of the extension do beside each other.
package replicas

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }

// patience is far beyond the lease.
const patience = 2 * time.Minute

// TestReplicas runs two replicas. Both are Ready. One serves, and its Pod alone has the label that Services select; the other
// refuses connections, also while a person puts the label on its Pod. When the first one is told to end, and when the next one is
// killed, another takes over.
func TestReplicas(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	launch := func(name string) *wire.Process {
		t.Helper()
		plane.Create(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "windlass"}}},
		})
		p := plane.Launch(t, "--leader-elect", "--namespace", namespace, "--pod", namespace+"/"+name)
		p.AwaitReady(t)
		return p
	}
	awaitActive := func(name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		active := map[string]bool{}
		err := wire.Await(ctx, plane.Client, &corev1.PodList{}, func(p *corev1.Pod) bool {
			delete(active, p.Name)
			if p.Labels[v1alpha1.ActiveLabel] == "true" {
				active[p.Name] = true
			}
			return len(active) == 1 && active[name]
		}, client.InNamespace(namespace))
		if err != nil {
			t.Fatalf("waiting until %s alone has the label: %v; it is on %v", name, err, active)
		}
	}
	reaches := func(p *wire.Process) bool {
		dialer := net.Dialer{Timeout: time.Second}
		connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.Hooks, "https://"))
		return err == nil && connection.Close() == nil
	}
	a := launch("a")
	awaitActive("a")
	b := launch("b")
	if !reaches(a) || reaches(b) {
		t.Errorf("connections: the leader %t, the other %t", reaches(a), reaches(b))
	}

	began := time.Now()
	a.Signal(t, syscall.SIGTERM)
	awaitActive("b")
	t.Logf("after SIGTERM the other one serves %s later", time.Since(began).Round(10*time.Millisecond))
	launch("c")
	began = time.Now()
	b.Kill(t)
	awaitActive("c")
	t.Logf("after SIGKILL the other one serves %s later", time.Since(began).Round(10*time.Millisecond))
}
