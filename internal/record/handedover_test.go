package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

// TestHandedOverOf: a record that does not tell what an updater does is an error, and not none.
func TestHandedOverOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`: "unexpected end of JSON input",
		`{"operation":"o","updater":"u","state":"Dreaming"}`: `the state "Dreaming" is unknown`,
		`{"operation":"o","state":"Asked"}`:                  "it names no operation or no updater",
		`{"updater":"u","state":"Asked"}`:                    "it names no operation or no updater",
	} {
		h, err := record.HandedOverOf(map[string]string{v1alpha1.HandedOverAnnotation: text})
		if h != nil || err == nil || err.Error() != want {
			t.Errorf("%s: %+v, %v, want %s", text, h, err, want)
		}
	}
	if h, err := record.HandedOverOf(nil); h != nil || err != nil {
		t.Errorf("without a record: %+v, %v", h, err)
	}
	h, err := record.HandedOverOf(map[string]string{v1alpha1.HandedOverAnnotation: `{"decision":"d",
		"operation":"o","updater":"u","state":"Accepted","budget":{"atOnce":2,"first":1}}`})
	want := &record.HandedOver{
		Operation: "o", Decision: "d", Updater: "u", State: record.HandOverAccepted,
		Budget: record.HandOverBudget{AtOnce: 2, First: 1},
	}
	if diff := cmp.Diff(want, h); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestNext: an updater is asked again only about another budget. An operation that has ended is not
// continued.
func TestNext(t *testing.T) {
	t.Parallel()
	const (
		asked, accepted = record.HandOverAsked, record.HandOverAccepted
		ended           = record.HandOverEnded
	)
	budget := record.HandOverBudget{AtOnce: 2, First: 3, Stay: 1}
	lessFirst, lessStay := budget, budget
	lessFirst.First, lessStay.Stay = 1, 0
	in := func(
		operation string, state record.HandOverState, b record.HandOverBudget,
	) *record.HandedOver {
		return &record.HandedOver{
			Operation: operation, Decision: "d", Updater: "u", State: state, Budget: b,
		}
	}
	for name, tt := range map[string]struct {
		before *record.HandedOver
		active bool
		budget record.HandOverBudget
		want   *record.HandedOver
	}{
		"none":       {nil, false, budget, in("o2", asked, budget)},
		"ended":      {in("o1", ended, budget), false, lessFirst, in("o2", asked, lessFirst)},
		"asked":      {in("o1", asked, budget), true, budget, in("o1", asked, budget)},
		"accepted":   {in("o1", accepted, budget), true, budget, in("o1", accepted, budget)},
		"less first": {in("o1", accepted, budget), true, lessFirst, in("o1", accepted, budget)},
		"less stay":  {in("o1", accepted, budget), true, lessStay, in("o1", asked, lessStay)},
	} {
		next := tt.before.Next("o2", "d", "u", tt.budget)
		if diff := cmp.Diff(tt.want, &next); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := tt.before.IsActive(); got != tt.active {
			t.Errorf("%s: an updater may be at work: %t", name, got)
		}
	}
}
