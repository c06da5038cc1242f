package hookclient

import (
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// No call takes longer than connecting may, so how a call fails does not depend on which of the two is over first.
func TestConnectingIsBounded(t *testing.T) {
	t.Parallel()
	conn, err := newConnection("x", runtimev1.ClientConfig{URL: "https://x"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if conn.http.Timeout != maxTimeout {
		t.Errorf("a call may take %s, want %s", conn.http.Timeout, maxTimeout)
	}
}
