package record_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

// TestTotal: all records fit on one object of each kind beside the annotations of others.
func TestTotal(t *testing.T) {
	t.Parallel()
	const accepted = 256 << 10 // apimachinery/pkg/api/validation.TotalAnnotationSizeLimitB
	for kind, limits := range record.Limits {
		total := 0
		for key, limit := range limits {
			total += len(key) + limit
		}
		if total > record.Total || total > accepted*2/3 {
			t.Errorf("the annotations of a %s may have %d bytes together, want at most %d", kind, total, record.Total)
		}
	}
}

// TestEachLimitHasAFix: the error about each annotation says how it becomes shorter.
func TestEachLimitHasAFix(t *testing.T) {
	t.Parallel()
	for kind, limits := range record.Limits {
		for key, limit := range limits {
			err := &record.TooLongError{Key: key, Bytes: limit + 1, Limit: limit}
			isProgress := key == v1alpha1.ChainProgressAnnotation
			if strings.HasSuffix(err.Error(), "otherwise ") || strings.Contains(err.Error(), "groups or Machines wait") != isProgress {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

// limitless says why the other annotations of api/v1alpha1 have no limit.
var limitless = map[string]string{
	"UpdateRetryAnnotation": "people write it", "UpdateAbandonAnnotation": "people write it",
	"AllowReplacementAnnotation": "people write it", "InPlaceUpgradeDrainAnnotation": "people write it",
	"OperationIDAnnotation": "sent to updaters", "DeadlineAnnotation": "sent to updaters",
	"CancelAnnotation": "sent to updaters", "InPlaceUpgradeOptionAnnotation": "sent to updaters",
	"InPlaceUpgradeFollowAnnotation": "sent to updaters", "PrefetchAnnotation": "sent to updaters",
	"ScaleDownDisabledAnnotation": "a mark on a Node: its value is empty",
	"UpdatedAnnotation":           "written by implementers", "UpdateFailedAnnotation": "written by implementers",
	"UpdateMessageAnnotation": "written by implementers",
}

// TestEachAnnotationHasALimit fails for an annotation of the API that is in neither list.
func TestEachAnnotationHasALimit(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../api/v1alpha1/annotations*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files with annotations: %v", err)
	}
	known := maps.Clone(limitless)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || !strings.HasSuffix(spec.Names[0].Name, "Annotation") {
				return true
			}
			value, _ := spec.Values[0].(*ast.BasicLit)
			name := spec.Names[0].Name
			if bounded := record.LimitOf(strings.Trim(value.Value, `"`)) > 0; bounded == (limitless[name] != "") {
				t.Errorf("api/v1alpha1.%s: has a limit: %t. Fix: list it in Limits or limitless", name, bounded)
			}
			delete(known, name)
			return true
		})
	}
	if len(known) > 0 {
		t.Errorf("api/v1alpha1 has no constants %q", slices.Sorted(maps.Keys(known)))
	}
}

func TestKeepLast(t *testing.T) {
	for limit, want := range map[int]string{100: "1,2,30", 6: "1,2,30", 5: "2,30", 3: "30", 2: "30", 1: ""} {
		if got := record.KeepLast("1,2,30", limit); got != want {
			t.Errorf("%d bytes: %q, want %q", limit, got, want)
		}
	}
}

// TestCheck: the error is about the first annotation that is too long. Others have no limit.
func TestCheck(t *testing.T) {
	t.Parallel()
	const key, later = v1alpha1.ChainIntentAnnotation, v1alpha1.ChainStepAnnotation
	limit := record.LimitOf(key)
	fits, long := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	tooLong := &record.TooLongError{Key: key, Bytes: limit + 1, Limit: limit}
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        error
	}{
		"none":     {nil, nil},
		"all fit":  {map[string]string{"example.com/other": long, key: fits}, nil},
		"too long": {map[string]string{key: long, later: long}, tooLong},
	} {
		if diff := cmp.Diff(tt.want, record.Check(tt.annotations)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
