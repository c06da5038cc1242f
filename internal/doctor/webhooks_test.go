package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/snapshot"
)

// TestWebhooks: a certificate that has expired is an error, and one that expires a warning. Neither
// keeps machines from being updated in place.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	const subject = "ValidatingWebhookConfiguration capv: the CA in its caBundle "
	for name, tt := range map[string]struct {
		left   time.Duration
		unread bool
		live   bool
		want   []string
	}{
		"valid":     {left: 300 * 24 * time.Hour, live: true, want: []string{"OK webhooks of Cluster API: 1 object checked"}},
		"expires":   {left: time.Hour, live: true, want: []string{"Warning " + subject + "expires"}},
		"expired":   {left: -time.Hour, live: true, want: []string{"Error " + subject + "expired"}},
		"unread":    {left: 300 * 24 * time.Hour, live: true, unread: true},
		"manifests": {left: 300 * 24 * time.Hour},
	} {
		f := healthy()
		f.Live, f.Now = tt.live, time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC)
		f.Webhooks.Callers = []snapshot.WebhookCaller{{
			Object: "ValidatingWebhookConfiguration capv", Bundle: f.Now.Add(tt.left),
		}}
		if tt.unread {
			f.Unread = []Unread{{Source: SourceWebhooks, Problem: "forbidden"}}
		}
		found, _ := Examine(f)
		var got []string
		for _, finding := range found {
			if finding.ID == CheckWebhooks {
				words, _, _ := strings.Cut(finding.Message, " on ")
				words, _, _ = strings.Cut(words, ":")
				got = append(got, string(finding.Severity)+" "+finding.Subject+": "+words)
			}
			if finding.ID == CheckMachinesKept && strings.Contains(finding.Message, string(CheckWebhooks)) {
				t.Errorf("%s: %s", name, finding.Message)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
