package linuxhost

import (
	"fmt"
	"strconv"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// looks is how often restart.sh must see the service run.
func (g Goal) looks() value {
	return value{"LOOKS", strconv.Itoa(int(max(1, g.settle()/(time.Second/2))))}
}

// holdLimit is how long a host keeps a service stopped that does not stay up. It is less than the 5
// minutes after which pods of a node that is not Ready are evicted.
const holdLimit = 3 * time.Minute

// undoesRestart reports whether a restart after which the service did not stay up is still to be
// ended, or this attempt has ended it.
func undoesRestart(g Goal, s Seen) bool {
	return s.Facts.NotStarted || ranInAttempt(g, PutBack, s) || ranInAttempt(g, PutBackAgain, s)
}

// isPutBack reports whether a step is PutBack or PutBackAgain.
func isPutBack(n Name) bool { return n == PutBack || n == PutBackAgain }

// decidePutBack decides what follows a restart after which the service did not stay up: it is
// stopped, and what it ran with before is kept on the host, whatever the goal was. That is put back if
// the Node proves that no kubelet of another version has registered: a kubelet that is older than the
// one before it is not supported. A Node that cannot be looked up is waited for, until the host starts
// the service again.
func decidePutBack(g Goal, s Seen) Progress {
	before := s.Facts.Kept
	p := Progress{Step: PutBack}
	node := s.Node
	if job := s.Facts.Job; job.State == JobEnded && ranInAttempt(g, job.Step, s) && isPutBack(job.Step) {
		if job.ExitCode != 0 || !s.Facts.NotStarted {
			return fails(FailureOf(job))
		}
		p.Step = PutBackAgain
	}
	configurationOnly := !before.IsZero() && before == s.Facts.Installed
	if !configurationOnly && node != nil && node.Unknown != "" {
		p.Message = fmt.Sprintf("%s does not stay up with %s and is stopped for up to %s; it gets back "+
			"%s if its Node does not report another version, but the Node cannot be looked up: %s",
			s.Facts.Service, s.Facts.Installed, holdLimit, before, node.Unknown)
		return p
	}
	why := ""
	if !configurationOnly {
		why = whyNotBack(before, node)
	}
	p.Begin = putBack(g, s.Facts, p.Step, why)
	return p
}

// whyNotBack says why a kubelet's version is not put back; empty if it is. node is nil if nobody
// looks at it.
func whyNotBack(before version.Version, node *inplace.Node) string {
	switch {
	case node == nil:
		return "Nothing was put back, because nobody looks at the Node"
	case before.IsZero() || !node.Exists || !before.RunBy(node.Kubelet):
		return fmt.Sprintf("Nothing was put back, because the Node does not report %s but %s: "+
			"a kubelet is never replaced with an older one", before, kubeletOf(*node))
	}
	return ""
}

// putBack puts back what the service ran with before, unless why says why not, and starts it.
func putBack(g Goal, f Facts, step Name, why string) Run {
	yes := map[bool]string{true: "yes"}
	return g.run(upgradeLimit, "put-back", value{"SERVICE", f.Service}, g.looks(), hold(),
		value{"RESTORE", yes[why == ""]}, value{"WHY", why}, value{"FIRST", yes[step == PutBack]})
}

// hold is how many seconds the scripts keep the service stopped.
func hold() value { return value{"HOLD", strconv.Itoa(int(holdLimit / time.Second))} }
