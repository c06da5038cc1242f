//go:build linux

package hosts_test

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// A delay beyond the test's time shows whether a write waits, without measuring one.
func TestSyncsWaitOnASlowDisk(t *testing.T) {
	const begin = "sync /etc/hostname; touch /run/synced"
	h := hosts.Start(t, hosts.Options{})
	h.MustRun(begin + "; rm /run/synced")
	h.DelaySyncs(time.Hour)
	for _, boot := range []bool{false, true} {
		if boot {
			h.Boot()
		}
		h.MustRun("{ " + begin + "; } >/dev/null 2>&1 & until grep -qs '^74 \\|^75 ' /proc/$!/syscall /proc/[0-9]*/syscall; do sleep 0.01; done")
		if _, err := h.Read("/run/synced"); err == nil {
			t.Errorf("after a boot %t: a write did not wait", boot)
		}
		// A process that waits for its disk can be killed.
		h.MustRun("pkill -9 -x sync; until ! pgrep -x sync; do sleep 0.01; done")
	}
	h.DelaySyncs(0)
	h.MustRun(begin)
	if _, err := h.Read("/run/synced"); err != nil {
		t.Error(err)
	}
}
