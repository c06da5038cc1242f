package serving

import (
	"testing"

	"k8s.io/client-go/rest"
)

// TestUnthrottle turns client-go's own limit off, with which a hundred machines hold each other up.
func TestUnthrottle(t *testing.T) {
	t.Parallel()
	config := &rest.Config{}
	Unthrottle(config)
	if config.QPS >= 0 {
		t.Errorf("the limit is %v", config.QPS)
	}
}
