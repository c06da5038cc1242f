package untrusted_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/test/symbols"
)

// parsers are what turns text into values, or into longer text.
var parsers = map[string][]string{
	"encoding/json":                     {"Unmarshal", "NewDecoder", "Decoder"},
	"sigs.k8s.io/json":                  {"UnmarshalStrict", "UnmarshalCaseSensitivePreserveInts", "NewDecoderCaseSensitivePreserveInts"},
	"sigs.k8s.io/yaml":                  {"Unmarshal", "UnmarshalStrict", "YAMLToJSON", "YAMLToJSONStrict"},
	"go.yaml.in/yaml/v2":                {"Unmarshal", "UnmarshalStrict", "NewDecoder", "Decoder"},
	"go.yaml.in/yaml/v3":                {"Unmarshal", "NewDecoder", "Decoder"},
	"compress/gzip":                     {"NewReader", "Reader"},
	"compress/zlib":                     {"NewReader"},
	"compress/bzip2":                    {"NewReader"},
	"compress/flate":                    {"NewReader"},
	"encoding/xml":                      {"Unmarshal", "NewDecoder", "Decoder"},
	"encoding/gob":                      {"NewDecoder", "Decoder"},
	"k8s.io/apimachinery/pkg/util/yaml": {"Unmarshal", "ToJSON", "NewYAMLOrJSONDecoder", "NewYAMLToJSONDecoder", "NewYAMLReader"},
	"k8s.io/apimachinery/pkg/util/json": {"Unmarshal"},
}

const (
	user     = "the file of the person who runs the command"
	itself   = "text that this process has just encoded"
	bounded  = "text that a package of the product has bounded before"
	testOnly = "a helper of tests"
)

// exceptions are the files that may parse by themselves, with the reason.
var exceptions = map[string]string{
	"internal/untrusted/json.go": "the parser",
	"internal/untrusted/yaml.go": "the parser",

	"internal/manifest/decode.go":         user,
	"internal/manifest/document.go":       user,
	"internal/manifest/kinds.go":          user,
	"internal/manifest/response.go":       user,
	"internal/simulate/scenario/parse.go": user,
	"internal/conformance/fixture.go":     user,
	"internal/updaterserver/control.go":   "the behaviour of a simulated updater, whose length it bounds, from this machine only",

	"internal/patches/client.go":             itself,
	"internal/recordlimit/client.go":         itself,
	"internal/inplace/engine/fence.go":       itself,
	"internal/hookclient/local.go":           itself,
	"internal/updaters/hosts/config.go":      "fields of an object that updaters.DecodeObject has parsed",
	"internal/settings/files.go":             "unzip bounds what it reads",
	"internal/guard/scope.go":                "a webhook configuration, which only operators can write",
	"internal/clustercheck/probe/objects.go": bounded + ": internal/workload",
	"internal/workload/forward.go":           bounded + ": cleanFailure",

	"internal/recordjson/formtest/form.go":       testOnly,
	"internal/updaters/k8sd/k8sdtest/handler.go": testOnly,

	"internal/htmlpage/htmlpagetest/check.go": testOnly,

	"internal/kubeadmpatch/parse.go":   "splits a text that it has bounded into documents",
	"internal/bounds/bounds.go":        "the CRDs that the program contains",
	"config/crd/bound/main.go":         "generated CRDs",
	"internal/updaters/k8sd/client.go": "a number, in UnmarshalJSON of a bounded answer",
}

// TestOnlyParser: no other file parses what tenants store and callers send.
func TestOnlyParser(t *testing.T) {
	t.Parallel()
	used, err := symbols.InProduct(filepath.Join("..", ".."), parsers)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range symbols.Unexpected(used, exceptions) {
		t.Errorf("%s: text from outside is parsed with internal/untrusted. Fix: use it, or say why not in the list", problem)
	}
}

// The search above finds each form.
func TestFindParsers(t *testing.T) {
	t.Parallel()
	found, err := symbols.In("p.go", `package p
import (
	j "encoding/json"
	"compress/gzip"
	"sigs.k8s.io/yaml"
)
type held struct { d *j.Decoder }
var a = j.Unmarshal(nil, nil)
var b = yaml.UnmarshalStrict
var c, _ = gzip.NewReader(nil)
var d gzip.Reader
var e = j.NewDecoder(nil).Decode(nil)
var f, _ = j.Marshal(nil)
`, parsers)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"json.Unmarshal", "yaml.UnmarshalStrict", "gzip.NewReader", "gzip.Reader", "json.NewDecoder"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}
