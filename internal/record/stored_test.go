package record_test

import (
	"errors"
	"testing"

	"github.com/windlass-dev/windlass/internal/record"
)

// TestCheckStored finds each way in which a webhook can change a record, and no other spelling.
func TestCheckStored(t *testing.T) {
	t.Parallel()
	const text = `{"id":"a","steps":[1,2]}`
	for name, tt := range map[string]struct {
		stored  map[string]string
		written *string
		want    bool
	}{
		"as written":              {map[string]string{"k": text, "other": "x"}, new(text), true},
		"spelled otherwise":       {map[string]string{"k": "{\"steps\": [1, 2],\n\"id\": \"a\"}"}, new(text), true},
		"no JSON":                 {map[string]string{"k": "x"}, new("x"), true},
		"removed as written":      {map[string]string{"other": "x"}, nil, true},
		"not stored":              {nil, new(text), false},
		"emptied":                 {map[string]string{"k": ""}, new(text), false},
		"a list in another order": {map[string]string{"k": `{"id":"a","steps":[2,1]}`}, new(text), false},
		"cut":                     {map[string]string{"k": text[:9]}, new(text), false},
		"other text":              {map[string]string{"k": "y"}, new("x"), false},
		"not removed":             {map[string]string{"k": text}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := record.CheckStored(tt.stored, map[string]*string{"k": tt.written})
			unstored, is := errors.AsType[*record.UnstoredError](err)
			if is == tt.want || is && unstored.Key != "k" {
				t.Errorf("got %v", err)
			}
		})
	}
}
