package workload_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestConfig gives what streams need, and not to whom a kubeconfig may not lead.
func TestConfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config, err := w.nodes.Config(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host == "" || config.Timeout != 0 || !slices.Contains(config.NextProtos, "http/1.1") {
		t.Errorf("the API server is %q, a stream's limit %s, the protocols %v", config.Host, config.Timeout, config.NextProtos)
	}
	if _, err := w.nodes.Config(t.Context(), types.NamespacedName{Namespace: "default", Name: "nobody"}); err == nil {
		t.Error("a cluster that is not there has a configuration")
	}
}
