package linuxhost

import (
	"fmt"
	"strconv"
	"time"
)

// looks is how often restart.sh must see the service run.
func (g Goal) looks() value {
	return value{"LOOKS", strconv.Itoa(int(max(1, g.settle()/(time.Second/2))))}
}

// decidePutBack decides what follows a restart after which the service did not stay up: it is
// stopped, and what it ran with before is kept on the host. That is put back if the Node proves that
// no kubelet of the goal's version has registered: a kubelet that is older than the one before it is
// not supported. A Node that cannot be looked up is waited for.
func decidePutBack(g Goal, s Seen) Progress {
	before := s.Facts.Kept
	p := Progress{Step: PutBack}
	node := s.Node
	switch {
	case ranInAttempt(g, PutBack, s) && s.Facts.Job.State == JobEnded:
		return fails(FailureOf(s.Facts.Job))
	case before == g.Version:
		// The upgrade changes the configuration only.
		p.Begin = putBack(g, s.Facts, "")
	case node == nil:
		p.Begin = putBack(g, s.Facts,
			"Nothing was put back, because nobody looks at the Node")
	case node.Unknown != "":
		p.Message = fmt.Sprintf("%s does not stay up with %s and is stopped; it gets back %s if "+
			"its Node does not report another version, but the Node cannot be looked up: %s",
			s.Facts.Service, g.Version, before, node.Unknown)
	case before.IsZero() || !node.Exists || !before.RunBy(node.Kubelet):
		p.Begin = putBack(g, s.Facts, fmt.Sprintf("Nothing was put back, because the Node does "+
			"not report %s but %s: a kubelet is never replaced with an older one",
			before, kubeletOf(*node)))
	default:
		p.Begin = putBack(g, s.Facts, "")
	}
	return p
}

// putBack puts back what the service ran with before, unless why says why not, and starts it.
func putBack(g Goal, f Facts, why string) Run {
	restore := ""
	if why == "" {
		restore = "yes"
	}
	return g.run(upgradeLimit, "put-back", value{"SERVICE", f.Service}, g.looks(),
		value{"RESTORE", restore}, value{"WHY", why})
}
