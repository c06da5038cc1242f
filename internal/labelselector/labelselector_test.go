package labelselector_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/labelselector"
)

// selecting is a selector of so many terms, the last of which has so many values of so many bytes.
func selecting(terms, values, bytes int) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range terms - 1 {
		s.MatchLabels[fmt.Sprintf("k%d", i)] = "v"
	}
	last := metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpNotIn}
	for i := range values {
		last.Values = append(last.Values, fmt.Sprintf("v%0*d", bytes-1, i))
	}
	s.MatchExpressions = append(s.MatchExpressions, last)
	return s
}

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		selector *metav1.LabelSelector
		// all says that it selects everything; err is a part of the error.
		all bool
		err string
	}{
		"none":               {nil, true, ""},
		"empty":              {&metav1.LabelSelector{}, true, ""},
		"as many terms":      {selecting(v1alpha1.MaxSelectorTerms, 1, 63), false, ""},
		"as many values":     {selecting(1, v1alpha1.MaxSelectorValuesInAll, 63), false, ""},
		"one term more":      {selecting(v1alpha1.MaxSelectorTerms+1, 1, 63), false, "has 65 labels and expressions, at most 64 are allowed. Fix: "},
		"one value more":     {selecting(1, v1alpha1.MaxSelectorValuesInAll+1, 63), false, "has 257 values, at most 256 are allowed. Fix: "},
		"too many bytes":     {selecting(1, 2, labelselector.MaxBytes/2), false, "bytes, at most 40448 are allowed. Fix: "},
		"a key of a MiB":     {&metav1.LabelSelector{MatchLabels: map[string]string{long: ""}}, false, "bytes, at most 40448"},
		"a value of a MiB":   {&metav1.LabelSelector{MatchLabels: map[string]string{"k": long}}, false, "bytes, at most 40448"},
		"it does not parse":  {selecting(1, 0, 63), false, "for 'in', 'notin' operators, values set can't be empty"},
		"a value of a KiB":   {&metav1.LabelSelector{MatchLabels: map[string]string{"k": long[:1<<10]}}, false, "values[0][k]: Invalid value"},
		"an operator of MiB": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOperator(long)}}}, false, "bytes, at most 40448"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := labelselector.Parse(tt.selector)
			err := got.Err()
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error is %v, want %q", err, tt.err)
			}
			if err != nil && len(err.Error()) > 512 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if got.SelectsAll() != tt.all {
				t.Errorf("it selects everything: %t, want %t", got.SelectsAll(), tt.all)
			}
			// Nobody knows what one that cannot be used was meant to select.
			if may := got.MayMatch(map[string]string{"k": "v" + strings.Repeat("0", 62)}); may != (tt.all || tt.err != "") {
				t.Errorf("it may match: %t", may)
			}
		})
	}
}

// TestSizeCostsNothing holds that a selector beyond the limits is refused for the same work, however
// large it is.
func TestSizeCostsNothing(t *testing.T) {
	of := func(s *metav1.LabelSelector) float64 {
		return testing.AllocsPerRun(10, func() {
			if labelselector.Parse(s).Err() == nil {
				t.Fatal("the selector was parsed")
			}
		})
	}
	small, large := of(selecting(1, v1alpha1.MaxSelectorValuesInAll+1, 63)), of(selecting(1, 20_000, 63))
	if large > small || large > 20 {
		t.Errorf("a selector of 1.3 MB takes %.0f allocations, one of 16 KB %.0f", large, small)
	}
}

// TestTerms: what is compared with a set are labels and expressions. A selector that selects everything,
// or that cannot be used, compares nothing.
func TestTerms(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		selector *metav1.LabelSelector
		want     int
	}{
		"none":              {nil, 0},
		"empty":             {&metav1.LabelSelector{}, 0},
		"three":             {selecting(3, 1, 63), 3},
		"it does not parse": {selecting(1, 0, 63), 0},
	} {
		if got := labelselector.Parse(tt.selector).Terms(); got != tt.want {
			t.Errorf("%s: %d terms, want %d", name, got, tt.want)
		}
	}
}
