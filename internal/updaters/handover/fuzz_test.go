package handover

import (
	"strings"
	"testing"
	"unicode"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// A response comes from an updater of somebody else. What it says to people is one bounded line.
func FuzzResponse(f *testing.F) {
	client, err := updaters.NewClient(updaters.ClientOptions{Name: "u", URL: "https://u.example"})
	if err != nil {
		f.Fatal(err)
	}
	u := &Updater{client: client}
	kind := `"apiVersion":"` + updatesv1.APIVersion + `","kind":"` + updatesv1.HandOverResponseKind + `"`
	for _, seed := range []string{
		"", "{}", "{" + kind + "}", "{" + kind + `,"accepted":true}`, "{" + kind + `,"reason":"` + strings.Repeat("x\n", 2000) + `"}`,
		`{"apiVersion":"\u001b[2J","kind":"` + strings.Repeat("k", 5000) + `"}`, "[]", "null",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		response, err := u.parseResponse(content)
		said := response.Reason
		if err != nil {
			said = err.Error()
		} else if !response.Accepted && said == "" {
			t.Error("it declines without a reason")
		}
		if len(said) > 2<<10 || strings.ContainsFunc(said, unicode.IsControl) {
			t.Errorf("shown is %q", said)
		}
	})
}
