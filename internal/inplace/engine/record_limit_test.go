package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/record"
)

// largest are as many fields as package cover returns at most.
func largest() (changes []cover.Change, dirty []cover.Pointer) {
	for i := range cover.MaxChanges {
		path := fmt.Sprintf("/spec/%03d", i)
		path += strings.Repeat("x", cover.MaxPaths/cover.MaxChanges-len(path))
		p := cover.Pointer{Part: cover.PartInfrastructure, Path: path}
		changes = append(changes, cover.Change{Part: p.Part, Path: path, Digest: strings.Repeat("d", 64)})
		dirty = append(dirty, p)
	}
	return changes, dirty
}

// TestLargestDecisionsFit: the newest decisions are recorded within the limit, and one always fits.
func TestLargestDecisionsFit(t *testing.T) {
	t.Parallel()
	changes, dirty := largest()
	var list []inplace.Decision
	for i := range maxDecisions {
		list = append(list, inplace.Decision{ID: fmt.Sprint(i), Changes: changes, Dirty: dirty})
	}
	const key = v1alpha1.UpdateDecisionsAnnotation
	for name, test := range map[string]struct {
		list []inplace.Decision
		want int
	}{"all": {list, 1}, "one": {list[:1], 1}, "small ones": {[]inplace.Decision{{ID: "0"}, {ID: "1"}}, 2}} {
		p := Patch{}
		err := setFitting(p, nil, key, test.list, func(l []inplace.Decision) []inplace.Decision { return l[:len(l)-1] })
		if err != nil {
			t.Fatal(err)
		}
		var got []inplace.Decision
		if err := json.Unmarshal([]byte(*p[key]), &got); err != nil {
			t.Fatal(err)
		}
		if len(*p[key]) > record.LimitOf(key) || len(got) != test.want || got[0].ID != "0" {
			t.Errorf("%s: %d bytes with %d decisions, want at most %d with %d", name, len(*p[key]), len(got), record.LimitOf(key), test.want)
		}
	}
}

// TestLargestRecordsFit: what an update records of the largest difference is within the limits.
func TestLargestRecordsFit(t *testing.T) {
	t.Parallel()
	_, dirty := largest()
	steps := []inplace.Step{{Updater: strings.Repeat("u", 253)}, {Updater: strings.Repeat("v", 253)}}
	for key, value := range map[string]any{
		v1alpha1.UpdateProgressAnnotation: inplace.Progress{Steps: steps, Dirty: dirty, LastError: strings.Repeat("e", 1024)},
		v1alpha1.UpdateOwedAnnotation:     inplace.Owed{Steps: steps, Dirty: dirty},
	} {
		p := Patch{}
		if err := p.set(nil, key, value); err != nil {
			t.Fatal(err)
		}
		if got, limit := len(*p[key]), record.LimitOf(key); got > limit || got < limit/4 {
			t.Errorf("%s: %d bytes, the limit is %d", key, got, limit)
		}
	}
}

// TestDirtyFieldsOfManyUpdatesFit: each update may leave other fields dirty; the latest stay recorded.
func TestDirtyFieldsOfManyUpdatesFit(t *testing.T) {
	t.Parallel()
	const key = v1alpha1.DirtyFieldsAnnotation
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	last := cover.Pointer{}
	for update := range 10 {
		_, dirty := largest()
		for i := range dirty {
			dirty[i].Path = fmt.Sprintf("%s/%d", dirty[i].Path, update)
		}
		last = dirty[len(dirty)-1]
		p := Patch{}
		action := inplace.Finish{Dirty: dirty, Summary: inplace.Summary{Ended: time.Unix(int64(update), 0)}}
		if err := setDirty(m, p, action, nil); err != nil {
			t.Fatal(err)
		}
		m.Annotations[key] = *p[key]
	}
	got, err := readAnnotation[[]DirtyField](m, key)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(m.Annotations[key]); size > record.LimitOf(key) || len(*got) < 50 || (*got)[len(*got)-1].Pointer != last {
		t.Errorf("%d bytes with %d fields, want at most %d with the latest", size, len(*got), record.LimitOf(key))
	}
}
