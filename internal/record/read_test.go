package record_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// TestRead: a record of its limit is read, and one that is larger or nests too deep is unknown, as
// one that is malformed is. Nothing of it is read.
func TestRead(t *testing.T) {
	t.Parallel()
	progress := func(padding int) string {
		return `{"id":"u1","phase":"Updating","lastError":"` + strings.Repeat("x", padding) + `"}`
	}
	const most = 128 << 10
	fits := most - len(progress(0))
	for name, tt := range map[string]struct {
		text  string
		phase record.Phase
		kind  untrusted.Kind
		fails bool
	}{
		"small":             {text: progress(1), phase: record.Updating},
		"of an older limit": {text: progress(fits), phase: record.Updating},
		"larger":            {text: progress(fits + 1), kind: untrusted.Bytes, fails: true},
		"deep":              {text: `{"phase":"Updating","later":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, kind: untrusted.Depth, fails: true},
		"malformed":         {text: `{"phase":"Updating"`, fails: true},
		"of a later kind":   {text: `{"phase":"Dreaming","laterRelease":[1]}`, phase: "Dreaming"},
	} {
		annotations := map[string]string{v1alpha1.UpdateProgressAnnotation: tt.text}
		p, err := record.ProgressOf(annotations)
		if (err != nil) != tt.fails || (p == nil) != tt.fails {
			t.Errorf("%s: %+v, %v", name, p, err)
			continue
		}
		if exceeds, ok := errors.AsType[*untrusted.LimitError](err); ok != (tt.kind != "") || ok && exceeds.Kind != tt.kind {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && p.Phase != tt.phase {
			t.Errorf("%s: phase %q", name, p.Phase)
		}
	}
	if p, err := record.ProgressOf(nil); p != nil || err != nil {
		t.Errorf("without a record: %+v, %v", p, err)
	}
}

// TestEncodeWritesWhatIsRead: what cannot be read again is not written.
func TestEncodeWritesWhatIsRead(t *testing.T) {
	t.Parallel()
	for _, machines := range []int{1, 900, 1100} {
		want := record.FailedCanaries{MachineSet: "s"}
		for range machines {
			want.Machines = append(want.Machines, strings.Repeat("m", 60))
		}
		const key = v1alpha1.FailedCanariesAnnotation
		text, err := record.Encode(nil, key, want)
		if fits := machines < 1000; (err == nil) != fits {
			t.Errorf("%d Machines: %v", machines, err)
		}
		if err != nil {
			if _, long := errors.AsType[*record.TooLongError](err); !long {
				t.Errorf("%d Machines: %T", machines, err)
			}
			continue
		}
		got, err := record.FailedCanariesOf(map[string]string{key: text})
		if diff := cmp.Diff(&want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// TestDecisionsOf: decisions that cannot be read count as none.
func TestDecisionsOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`[{"id":"d1"},{"id":""},{"id":"d2"}]`: 2, `[`: 0, `{}`: 0, `null`: 0,
		`[{"id":"` + strings.Repeat("x", 256<<10) + `"}]`: 0,
	} {
		annotations := map[string]string{v1alpha1.UpdateDecisionsAnnotation: text}
		if got := record.DecisionsOf(annotations); len(got) != want {
			t.Errorf("%.40s: %+v", text, got)
		}
	}
}
