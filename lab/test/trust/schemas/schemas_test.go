// Package schemas holds what a real API server does with objects that an earlier CRD accepted.
package schemas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/clusterctl"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

func TestMain(m *testing.M) { wire.Main(m) }

// plurals are those of all kinds.
var plurals = []string{"updatepolicies", "updaters", "upgradegates", "upgradegraphs"}

// beyond is an object that exceeds a bound of its CRD.
type beyond struct {
	kind, spec, status string
	// other changes another field; within brings the object within its bounds, and where is the field.
	other, within, where string
	// refusal is what the API server says of the bound.
	refusal string
}

// labels are matchLabels, values those of one expression.
func labels(count int) string {
	list := map[string]string{}
	for i := range count {
		list[fmt.Sprintf("label-%d", i)] = "x"
	}
	return encode(map[string]any{"matchLabels": list})
}

func values(count int) string {
	var list []string
	for i := range count {
		list = append(list, fmt.Sprint(i))
	}
	expression := map[string]any{"key": "rack", "operator": "In", "values": list}
	return encode(map[string]any{"matchExpressions": []any{expression}})
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

var objects = []beyond{
	{
		kind:  "UpgradeGate",
		spec:  `{"clusterSelector": ` + labels(65) + `, "steps": [{"at": "BeforeClusterUpgrade"}], "requires": {"approval": {}}}`,
		other: `{"steps": [{"at": "AfterClusterUpgrade"}]}`, where: "clusterSelector", within: labels(64),
		refusal: "spec.clusterSelector.matchLabels: Too many: 65: must have at most 64 items",
	},
	{
		kind:  "UpdatePolicy",
		spec:  `{"targets": [{"clusterName": "c"}], "strategy": "RollingUpdate", "order": {"last": ` + values(65) + `}}`,
		other: `{"maxInFlight": 2}`, where: "order", within: `{"last": ` + values(64) + `}`,
		refusal: "spec.order.last.matchExpressions[0].values: Too many: 65: must have at most 64 items",
	},
	{
		kind:  "Updater",
		spec:  `{"remote": {"url": "https://127.0.0.1:1"}, "selector": ` + labels(65) + `}`,
		other: `{"order": 2}`, where: "selector", within: labels(64),
		refusal: "spec.selector.matchLabels: Too many: 65: must have at most 64 items",
	},
	{
		kind:   "UpgradeGraph",
		spec:   `{"versions": ["v1.31.0"], "classes": [` + strings.TrimSuffix(strings.Repeat(`{"name": "c"},`, 129), ",") + `]}`,
		status: `{"oldestVersion": "` + strings.Repeat("v", 65) + `"}`,
		other:  `{"versions": ["v1.32.0"]}`, where: "classes", within: `[{"name": "c"}]`,
		refusal: "spec.classes: Too many: 129: must have at most 128 items",
	},
}

// object returns the object under the test's name. Kinds without a namespace take it as part of the name.
func (b beyond) object(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(`{"spec": `+b.spec+`, "status": `+cmp.Or(b.status, "{}")+`}`), &fields); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(b.kind))
	object.SetName(namespace)
	if b.kind == "UpgradeGate" || b.kind == "UpdatePolicy" {
		object.SetNamespace(namespace)
	}
	return object
}

// bringWithin replaces the field that exceeds a bound.
func (b beyond) bringWithin(t *testing.T, plane *wire.Plane, namespace string) error {
	t.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/%s", "value": %s}]`, b.where, b.within)
	return plane.Client.Patch(t.Context(), b.object(t, namespace), client.RawPatch(types.JSONPatchType, []byte(patch)))
}

// loosen removes every bound of a schema, and each rule: rules that nothing bounds are too expensive.
func loosen(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = loosen(v[i])
		}
	case map[string]any:
		maps.DeleteFunc(v, func(key string, value any) bool {
			number := key == "maxItems" || key == "maxLength" || key == "maxProperties"
			_, is := value.(float64)
			return key == "x-kubernetes-validations" || number && is
		})
		for key := range v {
			v[key] = loosen(v[key])
		}
	}
	return value
}

// replaceCRDs changes the versions of all our CRDs, and returns what undoes that. It returns once the
// API server's answer to a request is accepted: it serves a CRD some time after it has stored it.
func replaceCRDs(t *testing.T, plane *wire.Plane, change func(versions []byte) []byte, served func() bool) (undo func(served func() bool)) {
	t.Helper()
	before := map[string][]apiextensionsv1.CustomResourceDefinitionVersion{}
	for _, plural := range plurals {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + v1alpha1.GroupVersion.Group}}
		plane.Get(t, crd)
		before[crd.Name] = crd.DeepCopy().Spec.Versions
		changed := change([]byte(encode(crd.Spec.Versions)))
		crd.Spec.Versions = nil
		if err := json.Unmarshal(changed, &crd.Spec.Versions); err != nil {
			t.Fatal(err)
		}
		if err := plane.Client.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	loopback.Eventually(t, "the changed CRDs are served", served)
	return func(served func() bool) {
		t.Helper()
		for name, versions := range before {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
			plane.Get(t, crd)
			crd.Spec.Versions = versions
			if err := plane.Client.Update(t.Context(), crd); err != nil {
				t.Fatal(err)
			}
		}
		loopback.Eventually(t, "the CRDs are served again", served)
	}
}

func loosened(versions []byte) []byte {
	var value any
	if err := json.Unmarshal(versions, &value); err != nil {
		panic(err)
	}
	return []byte(encode(loosen(value)))
}

// accepts returns whether the API server would create all objects, or refuse them all.
func accepts(t *testing.T, plane *wire.Plane, namespace string, want bool) func() bool {
	t.Helper()
	return func() bool {
		for _, b := range objects {
			object := b.object(t, namespace)
			object.SetName(namespace + "-dry")
			if err := plane.Client.Create(t.Context(), object, client.DryRunAll); (err == nil) != want {
				return false
			}
		}
		return true
	}
}

// store creates objects of all kinds while the CRDs have no bounds.
func store(t *testing.T, plane *wire.Plane, namespace string) {
	t.Helper()
	undo := replaceCRDs(t, plane, loosened, accepts(t, plane, namespace, true))
	defer undo(accepts(t, plane, namespace, false))
	for _, b := range objects {
		plane.Create(t, b.object(t, namespace))
	}
}

// TestStoredBefore holds that an object beyond the bounds can be read, and changed in other fields and
// in its status; that the field itself cannot become larger, but smaller; and that the process writes
// the object's status.
func TestStoredBefore(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	store(t, plane, namespace)
	for _, b := range objects {
		t.Run(b.kind, func(t *testing.T) {
			object := b.object(t, namespace)
			want := b.object(t, namespace)
			read := &unstructured.Unstructured{}
			read.SetGroupVersionKind(object.GroupVersionKind())
			key := client.ObjectKeyFromObject(object)
			if err := plane.Client.Get(t.Context(), key, read); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(field(want, "spec", b.where), field(read, "spec", b.where)); diff != "" {
				t.Errorf("what was read differs (-stored +read):\n%s", diff)
			}
			patch := func(text string) error {
				return plane.Client.Patch(t.Context(), read, client.RawPatch(types.MergePatchType, []byte(text)))
			}
			if err := patch(`{"spec": ` + b.other + `}`); err != nil {
				t.Errorf("changing another field: %v", err)
			}
			if err := patch(`{"metadata": {"labels": {"a": "b"}}}`); err != nil {
				t.Errorf("changing a label: %v", err)
			}
			status := []byte(`{"status": {"observedGeneration": 7}}`)
			if err := plane.Client.Status().Patch(t.Context(), read, client.RawPatch(types.MergePatchType, status)); err != nil {
				t.Errorf("changing the status: %v", err)
			}
			if diff := gocmp.Diff(field(want, "spec", b.where), field(read, "spec", b.where)); diff != "" {
				t.Errorf("a change of other fields changed what exceeds the bound (-stored +read):\n%s", diff)
			}
		})
	}
	extension := plane.Run(t)
	for _, b := range objects {
		read := b.object(t, namespace)
		loopback.Eventually(t, "the process writes the status of "+b.kind, func() bool {
			plane.Get(t, read)
			return field(read, "status", "observedGeneration") == read.GetGeneration()
		})
	}
	extension.Kill(t)
	for _, b := range objects {
		if err := b.bringWithin(t, plane, namespace); err != nil {
			t.Errorf("bringing an %s within its bounds: %v", b.kind, err)
		}
	}
}

// TestRefusals holds what a person reads whose object is refused.
func TestRefusals(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	for _, b := range objects {
		err := plane.Client.Create(t.Context(), b.object(t, namespace))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), b.refusal) {
			t.Errorf("creating an %s: %v, want %s", b.kind, err, b.refusal)
		}
	}
}

// TestMoveOfStoredBefore holds that `clusterctl move` creates no object beyond the bounds and deletes none,
// and that it continues once the objects at the source keep their bounds.
func TestMoveOfStoredBefore(t *testing.T) {
	source, target := wire.Start(t), wire.StartSecond(t)
	namespace := source.Namespace(t)
	store(t, source, namespace)
	moved := make(chan error, 1)
	go func() { moved <- clusterctl.Move(t, source, target, namespace) }()
	// clusterctl repeats what is refused for some minutes.
	loopback.Eventually(t, "the target has refused an object", func() bool {
		select {
		case err := <-moved:
			t.Fatalf("the move ended: %v", err)
		default:
		}
		return refusals(t, target) > 0
	})
	if !accepts(t, target, namespace, false)() {
		t.Error("the target accepts an object beyond its bounds")
	}
	for _, b := range objects {
		if err := target.Client.Get(t.Context(), client.ObjectKeyFromObject(b.object(t, namespace)), b.object(t, namespace)); !apierrors.IsNotFound(err) {
			t.Errorf("reading the %s at the target: %v, want none", b.kind, err)
		}
		source.Get(t, b.object(t, namespace))
		if err := b.bringWithin(t, source, namespace); err != nil {
			t.Error(err)
		}
	}
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	for _, b := range objects {
		target.Get(t, b.object(t, namespace))
	}
}

// refusals returns how many kinds of ours the API server refused to create as invalid, without dry runs.
func refusals(t *testing.T, plane *wire.Plane) (kinds int) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		labels, found := strings.CutPrefix(line, "apiserver_request_total{")
		if found && strings.Contains(labels, `code="422"`) && strings.Contains(labels, `dry_run=""`) &&
			strings.Contains(labels, `group="`+v1alpha1.GroupVersion.Group+`"`) && strings.Contains(labels, `verb="POST"`) {
			kinds++
		}
	}
	return kinds
}

func field(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}
