package schemas

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// names are the controllers of the kinds.
var names = map[string]string{
	"UpdatePolicy": "updatepolicy", "Updater": "updater", "UpgradeGate": "upgradegate", "UpgradeGraph": "upgradegraph",
}

// edited changes the properties of spec and status in versions of a CRD.
func edited(edit func(spec, status map[string]any)) func(versions []byte) []byte {
	return func(versions []byte) []byte {
		var list []map[string]any
		if err := json.Unmarshal(versions, &list); err != nil {
			panic(err)
		}
		for _, version := range list {
			properties := func(part string) map[string]any {
				found, _, err := unstructured.NestedFieldNoCopy(version, "schema", "openAPIV3Schema", "properties", part, "properties")
				fields, is := found.(map[string]any)
				if err != nil || !is {
					panic("a CRD has no properties of its " + part)
				}
				return fields
			}
			edit(properties("spec"), properties("status"))
		}
		return []byte(encode(list))
	}
}

// valid are objects of all kinds that keep their bounds.
func valid(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, b := range objects {
		object := b.object(t, namespace)
		var within any
		if err := json.Unmarshal([]byte(b.within), &within); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(object.Object, within, "spec", b.where); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(object.Object, "status")
		found = append(found, object)
	}
	return found
}

// stores returns whether the API server would keep a field of the spec, or of none.
func stores(t *testing.T, plane *wire.Plane, namespace, name string, want bool) func() bool {
	t.Helper()
	return func() bool {
		for _, object := range valid(t, namespace) {
			object.SetName(namespace + "-dry")
			if err := unstructured.SetNestedField(object.Object, "x", "spec", name); err != nil {
				t.Fatal(err)
			}
			if err := plane.Client.Create(t.Context(), object, client.DryRunAll); err != nil {
				return false
			}
			if _, kept, _ := unstructured.NestedString(object.Object, "spec", name); kept != want {
				return false
			}
		}
		return true
	}
}

// TestOlderCRD runs the process with CRDs that lack a field of the status. It says so once for each object,
// counts it, and does not write without end.
func TestOlderCRD(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	marked := map[string]any{"type": "string", "maxLength": 9}
	undo := replaceCRDs(t, plane, edited(func(spec, status map[string]any) {
		delete(status, "conditions")
		spec["older"] = marked
	}), stores(t, plane, namespace, "older", true))
	defer undo(stores(t, plane, namespace, "older", false))
	var versions []string
	for _, object := range valid(t, namespace) {
		plane.Create(t, object)
	}
	extension := plane.Run(t, "--insecure-diagnostics")
	counted := func() (all bool, total float64) {
		all = true
		served := wire.Scrape(t, http.DefaultClient, "http://"+extension.Diagnostics)
		for _, controller := range names {
			value, found := served.Value("windlass_refused_writes_total", map[string]string{"controller": controller, "reason": "FieldsDropped"})
			all = all && found && value >= 3
			total += value
		}
		return all, total
	}
	loopback.Eventually(t, "each controller has seen three times that the field is missing", func() bool {
		all, _ := counted()
		return all
	})
	for _, object := range valid(t, namespace) {
		plane.Get(t, object)
		versions = append(versions, object.GetResourceVersion())
	}
	_, before := counted()
	loopback.Eventually(t, "the writes are repeated", func() bool {
		_, after := counted()
		return after > before
	})
	for i, object := range valid(t, namespace) {
		plane.Get(t, object)
		if object.GetResourceVersion() != versions[i] {
			t.Errorf("a write that stores nothing has changed the %s", object.GetKind())
		}
		const message = "refuses a write"
		said := 0
		for line := range strings.Lines(extension.Log(t)) {
			if strings.Contains(line, message) && strings.Contains(line, "status.conditions") && strings.Contains(line, `"controller":"`+names[object.GetKind()]+`"`) {
				said++
			}
		}
		if said != 1 {
			t.Errorf("the log says %d times that the CRD of %s lacks a field", said, object.GetKind())
		}
	}
}

// TestNewerCRD runs the process with CRDs that have fields which it does not know. Its writes keep them.
func TestNewerCRD(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	undo := replaceCRDs(t, plane, edited(func(spec, status map[string]any) {
		for _, part := range []map[string]any{spec, status} {
			part["newer"] = map[string]any{"type": "string", "maxLength": 9}
		}
	}), stores(t, plane, namespace, "newer", true))
	defer undo(stores(t, plane, namespace, "newer", false))
	for _, object := range valid(t, namespace) {
		for _, part := range []string{"spec", "status"} {
			if err := unstructured.SetNestedField(object.Object, "x", part, "newer"); err != nil {
				t.Fatal(err)
			}
		}
		plane.Create(t, object)
	}
	extension := plane.Run(t)
	for _, object := range valid(t, namespace) {
		loopback.Eventually(t, "the process writes the status of "+object.GetKind(), func() bool {
			plane.Get(t, object)
			return field(object, "status", "observedGeneration") == object.GetGeneration()
		})
		for _, part := range []string{"spec", "status"} {
			if got := field(object, part, "newer"); got != "x" {
				t.Errorf("the newer field of the %s of %s is %v", part, object.GetKind(), got)
			}
		}
	}
	extension.Kill(t)
}
