package guard_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestForgedReviewsInTheLog sends reviews that cannot be decided, bodies that cannot be read, and what
// is no TLS. The log has a few lines about them, and counts what was left out.
func TestForgedReviewsInTheLog(t *testing.T) {
	p := wire.Start(t)
	namespace := p.Namespace(t)
	cluster(t, p, namespace, "prod")
	p.Create(t, policy(namespace, "keep", v1alpha1.UpdateTarget{}))
	e := p.Run(t)
	before := strings.Count(e.Log(t), "\n")
	const reviews, connections, most = 2000, 100, 40
	caller := e.Client(t, nil)
	for i := range reviews {
		forged := machine(namespace, "prod", fmt.Sprint("forged-", i), nil)
		forged.Spec.ClusterName = "" // The guard reads policies from a cache, so it may know none yet.
		for _, body := range []any{review(t, admissionv1.Create, forged), fmt.Sprint("garbage ", i)} {
			if _, _, err := e.Post(t.Context(), caller, e.Guard+"/guard-machine", body); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range connections {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.Guard, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(connection, "this is no TLS\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection)
		_ = connection.Close()
	}
	text := e.Log(t)
	lines := strings.Count(text, "\n") - before
	t.Logf("%d reviews, and %d broken connections: %d lines", 2*reviews, connections, lines)
	for _, line := range []string{
		"Refused to create or delete a Machine", "A connection ended with an error",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the log has no line %q", line)
		}
	}
	if lines > most {
		t.Errorf("%d lines, want at most %d", lines, most)
	}
}
