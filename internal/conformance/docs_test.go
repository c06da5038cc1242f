package conformance_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/conformance"
)

// blocks gives the code blocks of a document, by language.
func blocks(t *testing.T, document string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, match := range regexp.MustCompile("(?s)\n```(\\w+)\n(.*?\n)```\n").FindAllStringSubmatch(read(t, "docs", "how-to", document), -1) {
		found[match[1]] = append(found[match[1]], match[2])
	}
	return found
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func strict(t *testing.T, content string, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewBufferString(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%v in\n%s", err, content)
	}
}

// TestDocumentation checks that what is shown is what is there.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	shown := blocks(t, "write-an-updater.md")
	if len(shown["yaml"]) != 2 || len(shown["go"]) != 3 {
		t.Fatalf("there are %d and %d blocks of YAML and Go", len(shown["yaml"]), len(shown["go"]))
	}
	if fixture, err := conformance.ParseFixture([]byte(shown["yaml"][0])); err != nil || fixture.CanUpdateMachine == nil || fixture.UpdateMachine == nil {
		t.Errorf("the fixture gives %+v, %v", fixture, err)
	}
	if err := yaml.UnmarshalStrict([]byte(shown["yaml"][1]), &v1alpha1.Updater{}); err != nil {
		t.Errorf("the Updater: %v", err)
	}
	example := read(t, "examples", "updater", "main.go") + read(t, "examples", "updater", "update.go")
	for _, excerpt := range shown["go"] {
		if !strings.Contains(example, excerpt) {
			t.Errorf("the example does not hold\n%s", excerpt)
		}
	}
}

// TestHandOverDocumentation checks that each phase is shown in the words of the protocol.
func TestHandOverDocumentation(t *testing.T) {
	t.Parallel()
	phases, page := make(map[updatesv1.Phase]bool), blocks(t, "write-a-hand-over-updater.md")
	if len(page["yaml"]) != 2 {
		t.Fatalf("there are %d blocks of YAML", len(page["yaml"]))
	}
	policy, updater := &v1alpha1.UpdatePolicy{}, &v1alpha1.Updater{}
	for i, into := range []any{policy, updater} {
		if err := yaml.UnmarshalStrict([]byte(page["yaml"][i]), into); err != nil {
			t.Errorf("the %T: %v", into, err)
		}
	}
	if policy.Spec.HandOver != v1alpha1.HandOverGroup {
		t.Errorf("the UpdatePolicy is %+v", policy.Spec)
	}
	if updater.Spec.Remote == nil || updater.Spec.Remote.Protocol != v1alpha1.HandOverProtocol {
		t.Errorf("the Updater has remote %+v", updater.Spec.Remote)
	}
	for _, shown := range page["json"] {
		if strings.Contains(shown, updatesv1.HandOverResponseKind) {
			strict(t, shown, &updatesv1.HandOverResponse{})
			continue
		}
		request := updatesv1.HandOverRequest{}
		strict(t, shown, &request)
		phases[request.Phase] = true
	}
	want := map[updatesv1.Phase]bool{updatesv1.Offer: true, updatesv1.Choose: true, updatesv1.Start: true, updatesv1.HandOver: true, updatesv1.Cancel: true}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Errorf("the phases shown (-want +got)\n%s", diff)
	}
}

// TestSources checks that the rules that this project made are where the points say.
func TestSources(t *testing.T) {
	t.Parallel()
	for _, point := range append(verify(t, newSubject(), nil).Points, receive(t, &receiver{}).Points...) {
		where, own := strings.CutPrefix(point.Source, "Windlass docs/how-to/")
		document, section, _ := strings.Cut(where, ", ")
		if own && !strings.Contains(read(t, "docs", "how-to", document), "## "+section+"\n") {
			t.Errorf("%s: there is no section %q", point.ID, section)
		}
	}
}

// TestAnnotationsAreDocumented checks that providers find every annotation, condition and reason.
func TestAnnotationsAreDocumented(t *testing.T) {
	t.Parallel()
	document := read(t, "docs", "reference", "for-providers.md") + read(t, "docs", "how-to", "write-an-updater.md") +
		read(t, "docs", "how-to", "write-a-hand-over-updater.md")
	named := regexp.MustCompile(`(?m)^(?:const )?\s*\w+(?:Annotation|Condition|Reason)\s*=\s*"(.+)"$`).FindAllStringSubmatch(
		read(t, "api", "v1alpha1", "annotations.go")+read(t, "api", "v1alpha1", "conditions.go"), -1)
	if len(named) < 15 {
		t.Errorf("only %d names were found", len(named))
	}
	for _, match := range named {
		if !strings.Contains(document, "`"+match[1]+"`") {
			t.Errorf("%s is not documented", match[1])
		}
	}
}
