package cover

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAll checks that the patches of the whole difference leave none.
func TestAll(t *testing.T) {
	t.Parallel()
	current := Objects{
		Machine:        json.RawMessage(`{"kind":"Machine","metadata":{"name":"m"},"spec":{"version":"v1.30.0","providerID":"p"}}`),
		Infrastructure: json.RawMessage(`{"kind":"I","spec":{"a":1,"list":[1,2],"gone":{"x":1}}}`),
		Bootstrap:      json.RawMessage(`{"kind":"B","spec":{}}`),
	}
	desired := Objects{
		Machine:        json.RawMessage(`{"kind":"Machine","metadata":{"name":"m"},"spec":{"version":"v1.31.0"}}`),
		Infrastructure: json.RawMessage(`{"kind":"I","spec":{"a":2,"list":[1,3,4]}}`),
		Bootstrap:      json.RawMessage(`{"kind":"B","spec":{"files":[{"path":"/x"}]}}`),
	}
	c, err := New(Machine, current, desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := c.Apply(Updater{Name: "all"}, c.All())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Pointer(nil), applied.Result().Uncovered); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
