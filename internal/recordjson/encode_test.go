package recordjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/recordjson"
)

type step struct {
	Name string `json:"name" record:"key"`
	Done bool   `json:"done,omitempty"`
}

type embedded struct {
	Path string `json:"path" record:"key"`
}

type keyed struct {
	embedded `json:",inline"`

	Since time.Time `json:"since"`
}

type plain struct {
	Text string `json:"text"`
}

type record struct {
	ID     string         `json:"id" record:"key"`
	Count  int64          `json:"count,omitempty"`
	Steps  []step         `json:"steps,omitempty"`
	Keyed  []keyed        `json:"keyed,omitempty"`
	Plain  *plain         `json:"plain,omitempty"`
	Plains []plain        `json:"plains,omitempty"`
	Counts map[string]int `json:"counts,omitempty"`
	hidden string
}

func TestEncode(t *testing.T) {
	t.Parallel()
	zero := `"since":"0001-01-01T00:00:00Z"`
	for name, tt := range map[string]struct {
		before string
		after  any
		want   string
	}{
		"nothing before":             {``, record{ID: "a"}, `{"id":"a"}`},
		"no JSON before":             {`{"id":"a","new":1`, record{ID: "a"}, `{"id":"a"}`},
		"null before":                {`null`, record{ID: "a"}, `{"id":"a"}`},
		"unexported fields":          {`{"id":"a","count":1,"hidden":2}`, record{ID: "a", Steps: []step{{Name: "x"}}, hidden: "h"}, `{"id":"a","steps":[{"name":"x"}],"hidden":2}`},
		"a field that was removed":   {`{"id":"a","count":1}`, record{ID: "a"}, `{"id":"a"}`},
		"another case":               {`{"id":"a","COUNT":1}`, record{ID: "a"}, `{"id":"a"}`},
		"a field is kept":            {`{"id":"a","new":{"of":[1]}}`, &record{ID: "a", Count: 2}, `{"id":"a","count":2,"new":{"of":[1]}}`},
		"digits are kept":            {`{"id":"a","new":12345678901234567890.5}`, record{ID: "a", Count: 1 << 62}, `{"id":"a","count":4611686018427387904,"new":12345678901234567890.5}`},
		"about something else":       {`{"id":"a","new":1,"plain":{"text":"x","new":2}}`, record{ID: "b", Plain: &plain{}}, `{"id":"b","plain":{"text":""}}`},
		"an object without keys":     {`{"id":"a","plain":{"text":"x","new":2}}`, record{ID: "a", Plain: &plain{Text: "y"}}, `{"id":"a","plain":{"text":"y","new":2}}`},
		"an object that is gone":     {`{"id":"a","plain":{"text":"x","new":2}}`, record{ID: "a"}, `{"id":"a"}`},
		"an item that is gone":       {`{"id":"a","steps":[{"name":"x","new":1},{"name":"y","new":2}]}`, record{ID: "a", Steps: []step{{Name: "y", Done: true}}}, `{"id":"a","steps":[{"name":"y","done":true,"new":2}]}`},
		"items in another order":     {`{"id":"a","steps":[{"name":"x","new":1},{"name":"y"}]}`, record{ID: "a", Steps: []step{{Name: "z"}, {Name: "y"}, {Name: "x"}}}, `{"id":"a","steps":[{"name":"z"},{"name":"y"},{"name":"x","new":1}]}`},
		"items with the same key":    {`{"id":"a","steps":[{"name":"x","new":1},{"name":"x","new":2}]}`, record{ID: "a", Steps: []step{{Name: "x"}, {Name: "x"}}}, `{"id":"a","steps":[{"name":"x","new":1},{"name":"x","new":2}]}`},
		"items without keys":         {`{"id":"a","plains":[{"text":"x","new":1}]}`, record{ID: "a", Plains: []plain{{Text: "x"}}}, `{"id":"a","plains":[{"text":"x"}]}`},
		"keys of an embedded struct": {`{"id":"a","keyed":[{"path":"/p",` + zero + `,"new":1}]}`, record{ID: "a", Keyed: []keyed{{embedded: embedded{Path: "/p"}}}}, `{"id":"a","keyed":[{"path":"/p",` + zero + `,"new":1}]}`},
		"names of a map are no fields": {
			`{"id":"a","counts":{"md-0":1}}`, record{ID: "a", Counts: map[string]int{"md-1": 2}}, `{"id":"a","counts":{"md-1":2}}`,
		},
		"a list":     {`[{"name":"x","new":1}]`, []step{{Name: "y"}, {Name: "x"}}, `[{"name":"y"},{"name":"x","new":1}]`},
		"other JSON": {`"text"`, record{ID: "a"}, `{"id":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := recordjson.Encode(tt.after, tt.before)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, tt.want), parse(t, got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got, err := recordjson.Encode(func() {}, ""); err == nil {
		t.Errorf("a function is encoded as %s", got)
	}
}

// parse keeps the digits of numbers.
func parse(t *testing.T, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}
