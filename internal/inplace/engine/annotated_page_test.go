package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages decodes one Machine of each page into the list that it is given, as the client of an API server does.
type pages struct {
	client.Reader
	pages []string
}

func (r pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	page := 0
	if asked.Continue != "" {
		if _, err := fmt.Sscan(asked.Continue, &page); err != nil {
			return err
		}
	}
	next := ""
	if page+1 < len(r.pages) {
		next = fmt.Sprint(page + 1)
	}
	return json.Unmarshal(fmt.Appendf(nil, `{"metadata":{"continue":%q},"items":[%s]}`, next, r.pages[page]), list)
}

// TestPagesAreKeptApart lets nothing of a page show in the Machines of another.
func TestPagesAreKeptApart(t *testing.T) {
	t.Parallel()
	e := New(Options{Live: pages{pages: []string{
		`{"metadata":{"name":"a","annotations":{"x":"1"}},"status":{"nodeInfo":{"kubeletVersion":"v1.31.1"}}}`,
		`{"metadata":{"name":"b","annotations":{"y":"2"}}}`,
		`{"metadata":{"name":"c"}}`,
	}}})
	machines, err := e.listMachines(t.Context(), inCluster)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range machines {
		got[machines[i].Name] = fmt.Sprint(machines[i].Annotations, kubeletOf(&machines[i]))
	}
	if diff := cmp.Diff(map[string]string{"a": "map[x:1] v1.31.1", "b": "map[y:2] ", "c": "map[] "}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
