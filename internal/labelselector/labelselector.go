// Package labelselector parses label selectors that tenants write: within limits, and once. It is
// pure and safe for concurrent use.
package labelselector

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
)

// MaxBytes bounds the keys, operators and values of a selector together: it is the most that the other
// limits of selectors, those of package v1alpha1, let through. A selector beyond one of the limits was
// stored before the CRDs had them. It is refused before anything of it is parsed, so its size costs
// nothing.
const MaxBytes = v1alpha1.MaxSelectorTerms*(v1alpha1.MaxLabelKeyLength+v1alpha1.MaxLabelValueLength) +
	v1alpha1.MaxSelectorValuesInAll*v1alpha1.MaxLabelValueLength

// maxErrorBytes bounds the text of an error: it quotes what a tenant wrote.
const maxErrorBytes = 512

// Selector is a label selector that was parsed once. The zero value selects everything, as one that is
// not set or empty does. It must not be changed.
type Selector struct {
	parsed labels.Selector
	err    error
}

// Parse parses a selector, which may be nil, and keeps nothing of it. It never fails: see Err.
func Parse(s *metav1.LabelSelector) Selector {
	if IsEmpty(s) {
		return Selector{}
	}
	if err := checkSize(s); err != nil {
		return Selector{err: err}
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return Selector{err: fmt.Errorf("%s", text.Bound(err.Error(), maxErrorBytes))}
	}
	return Selector{parsed: parsed}
}

// IsEmpty reports whether a selector leaves nothing out.
func IsEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// checkSize looks at no more than MaxSelectorTerms terms and MaxSelectorValuesInAll values.
func checkSize(s *metav1.LabelSelector) error {
	if terms := len(s.MatchLabels) + len(s.MatchExpressions); terms > v1alpha1.MaxSelectorTerms {
		return tooLarge(terms, "labels and expressions", v1alpha1.MaxSelectorTerms)
	}
	values, size := 0, 0
	for key, value := range s.MatchLabels {
		size += len(key) + len(value)
	}
	for _, e := range s.MatchExpressions {
		if values += len(e.Values); values > v1alpha1.MaxSelectorValuesInAll {
			return tooLarge(values, "values", v1alpha1.MaxSelectorValuesInAll)
		}
		size += len(e.Key) + len(e.Operator)
		for _, value := range e.Values {
			size += len(value)
		}
	}
	if size > MaxBytes {
		return tooLarge(size, "bytes", MaxBytes)
	}
	return nil
}

func tooLarge(n int, what string, most int) error {
	return fmt.Errorf("the selector has %d %s, at most %d are allowed. "+
		"Fix: give what it selects one label that it shares, and select that", n, what, most)
}

// Err says why the selector cannot be used: it does not parse, or is beyond a limit. The text is
// bounded.
func (s Selector) Err() error { return s.err }

// SelectsAll reports whether the selector leaves nothing out.
func (s Selector) SelectsAll() bool { return s.parsed == nil && s.err == nil }

// MayMatch reports whether the selector matches a set of labels. One that cannot be used might: what
// was meant is unknown.
func (s Selector) MayMatch(set map[string]string) bool {
	return s.parsed == nil || s.parsed.Matches(labels.Set(set))
}

// Terms returns how many labels and expressions the selector has that are compared with a set.
func (s Selector) Terms() int {
	if s.parsed == nil {
		return 0
	}
	requirements, _ := s.parsed.Requirements()
	return len(requirements)
}

// Parsed returns the selector; nil if it selects everything or cannot be used.
func (s Selector) Parsed() labels.Selector { return s.parsed }
