package apiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conflicts, as an annotation of an object, is how many patches of it fail as if somebody had changed it meanwhile.
const conflicts = "test/conflicts"

// patch applies a JSON merge patch, of an object or its status alike, if the resource version in it is the object's.
func (f *Server) patch(w http.ResponseWriter, r *http.Request, matches func(*unstructured.Unstructured) bool, groupVersion, resource string) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		fail(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", r.Header.Get("Content-Type"))
		return
	}
	var sent struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	changed := f.ChangeOne(matches, groupVersion, resource, func(o *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
		annotations := o.GetAnnotations()
		left, _ := strconv.Atoi(annotations[conflicts])
		if left > 0 {
			annotations[conflicts] = strconv.Itoa(left - 1)
			o.SetAnnotations(annotations)
		}
		if left > 0 || sent.Metadata.ResourceVersion != "" && sent.Metadata.ResourceVersion != o.GetResourceVersion() {
			fail(w, http.StatusConflict, "Conflict", "the object has been modified")
			return nil, false
		}
		before, _ := o.MarshalJSON()
		after, err := jsonpatch.MergePatch(before, body)
		patched := &unstructured.Unstructured{}
		if err != nil || patched.UnmarshalJSON(after) != nil {
			fail(w, http.StatusBadRequest, "BadRequest", string(body))
			return nil, false
		}
		return patched, true
	})
	if changed != nil {
		f.Put(changed)
		reply(w, changed.Object)
	}
}

// ChangeOne calls change for the object that matches, and returns what it should become.
func (f *Server) ChangeOne(matches func(*unstructured.Unstructured) bool, groupVersion, resource string, change func(*unstructured.Unstructured) (*unstructured.Unstructured, bool)) *unstructured.Unstructured {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.resources[groupVersion][resource] {
		if matches(o) {
			if changed, ok := change(o); ok {
				return changed
			}
			return nil
		}
	}
	return nil
}

// Remove removes the objects that match, and tells those who watch.
func (f *Server) Remove(groupVersion, resource string, matches func(*unstructured.Unstructured) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var left []*unstructured.Unstructured
	for _, o := range f.resources[groupVersion][resource] {
		if !matches(o) {
			left = append(left, o)
			continue
		}
		f.version++
		gone := o.DeepCopy()
		gone.SetResourceVersion(strconv.Itoa(f.version))
		f.log = append(f.log, event{version: f.version, resource: groupVersion + " " + resource, Type: "DELETED", Object: gone.Object})
	}
	f.resources[groupVersion][resource] = left
	close(f.changed)
	f.changed = make(chan struct{})
}
