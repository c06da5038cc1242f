package text_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/text"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"prdo": `"prod"`, "prod1": `"prod"`, "pord-eu": `"prod-eu"`, "staging": "", "x": "", "": "", "prod": "",
	} {
		got := text.DescribeNearest(wrong, []string{"prod", "prod-eu", "y"})
		if (got == "") != (want == "") || !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q, want %s", wrong, got, want)
		}
	}
}
