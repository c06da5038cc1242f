package recorder

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/windlass-dev/windlass/lab/internal/journal"
)

// encode returns a ConfigMap as an API server stores it.
func encode(t *testing.T, value string) []byte {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{valueKey: value},
	}
	data, err := runtime.Encode(protobuf.NewSerializer(scheme, scheme), object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseMember(t *testing.T) {
	t.Parallel()
	type kv struct {
		Key      []byte `json:"key"`
		Value    []byte `json:"value"`
		Revision int64  `json:"mod_revision"`
	}
	keys, err := json.Marshal(map[string]any{"count": 4, "kvs": []kv{
		{[]byte(keyPrefix + "kube-root-ca.crt"), encode(t, ""), 7},
		{[]byte(keyPrefix + "write-1"), encode(t, "one"), 8},
		{[]byte(keyPrefix + "write-12"), encode(t, "twelve"), 19},
		{[]byte(keyPrefix + "write-13"), []byte("damaged"), 20},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const status = `[{"Endpoint":"https://127.0.0.1:2379","Status":{"header":{"member_id":1},"version":"3.6.6","dbSize":4096}}]`
	const members = `{"header":{},"members":[{"ID":2,"name":"b","peerURLs":["x"]},{"ID":1,"name":"a"}]}`
	got, err := parseMember(status + "\n" + members + "\n" + string(keys) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	want := journal.Member{Version: "3.6.6", Known: []string{"a", "b"}, Stored: map[int]journal.Stored{
		1: {Revision: 8, Value: "one"}, 12: {Revision: 19, Value: "twelve"}, 13: {Revision: 20},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, output := range map[string]string{
		"nothing": "", "an answer is missing": status + "\n" + members, "no JSON": status + "\n" + members + "\nError: no leader",
		"no status": "[]\n" + members + "\n" + string(keys),
	} {
		if got, err := parseMember(output); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if empty, err := parseMember(strings.Join([]string{status, members, `{"header":{}}`}, "\n")); err != nil || len(empty.Stored) != 0 {
		t.Errorf("a member without writes: %+v, %v", empty, err)
	}
}
