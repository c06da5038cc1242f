package htmlpagetest_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/htmlpage/htmlpagetest"
)

// A test of the test: what breaks out of a page is found.
func TestCheckPage(t *testing.T) {
	for _, broken := range []string{
		`<p><script>x</script></p>`, `<p onclick="x">`, `<svg><use href="https://example.org/x"/></svg>`, `<rect width="NaN%"/>`, `<path d="M0 +Inf"/>`, `<rect x="-3%"/>`,
		`<p>`, `<line x1="1e+20"/>`, `<p></div>`,
	} {
		if err := htmlpagetest.Check(broken); err == nil {
			t.Errorf("nothing wrong is found with %s", broken)
		}
	}
}
