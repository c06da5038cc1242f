package inplace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/core/inplace"
)

func TestMergeSteps(t *testing.T) {
	t.Parallel()
	s := func(names ...string) []inplace.Step {
		var steps []inplace.Step
		for _, n := range names {
			steps = append(steps, inplace.Step{Updater: n})
		}
		return steps
	}
	for _, tt := range []struct{ a, b, want []inplace.Step }{
		{a: s("a", "c"), b: s("a", "b", "c"), want: s("a", "b", "c")},
		{a: s("a"), b: s("b"), want: s("a", "b")},
		{a: s("a", "b"), b: s("b", "c"), want: s("a", "b", "c")},
		{a: nil, b: s("a"), want: s("a")},
		{a: s("a"), b: nil, want: s("a")},
	} {
		if diff := cmp.Diff(tt.want, inplace.MergeSteps(tt.a, tt.b)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestMergeStepsIsCareful(t *testing.T) {
	t.Parallel()
	a := []inplace.Step{{Updater: "kubelet", MaxMinors: 2}}
	b := []inplace.Step{{Updater: "kubelet", SetsVersion: true, NeedsDrain: true, MaxMinors: 1}}
	want := []inplace.Step{{Updater: "kubelet", SetsVersion: true, NeedsDrain: true, MaxMinors: 1}}
	for _, merged := range [][]inplace.Step{inplace.MergeSteps(a, b), inplace.MergeSteps(b, a), inplace.MergeSteps(want, []inplace.Step{{Updater: "kubelet"}})} {
		if diff := cmp.Diff(want, merged); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if a[0].MaxMinors != 2 || a[0].NeedsDrain {
		t.Errorf("the input is changed: %+v", a)
	}
}
