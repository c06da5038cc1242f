//go:build linux

package hosts

import (
	"errors"
	"fmt"
	"testing"
)

// recorder is a test that only remembers what it is told.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = "fail: " + fmt.Sprintf(format, args...)
}

func (r *recorder) Skipf(format string, args ...any) {
	r.said = "skip: " + fmt.Sprintf(format, args...)
}

func TestWhatIsMissingFailsInCIOnly(t *testing.T) {
	missing := errors.New("ip is missing")
	for _, c := range []struct {
		ci   string
		err  error
		want string
	}{
		{"", missing, "skip: hosts for tests: ip is missing"},
		{"true", missing, "fail: hosts for tests: ip is missing"},
		{"", nil, ""},
		{"true", nil, ""},
	} {
		r := &recorder{TB: t}
		require(r, c.ci, c.err)
		if r.said != c.want {
			t.Errorf("CI=%q, %v: %q, want %q", c.ci, c.err, r.said, c.want)
		}
	}
}
