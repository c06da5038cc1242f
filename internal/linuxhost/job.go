package linuxhost

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// StartBusy is the exit code of StartScript where another job runs, another upgrade is at work, or the job does not begin at once.
const StartBusy = 75

// StartScript starts a step's script as a job, and returns at once. It does nothing where the same
// job runs or has ended. proof is kept with the job. The job's script is a value and not stdin: a
// connection that ends cuts stdin off, and a script that is cut off must not run.
func StartScript(g Goal, step Name, attempt, proof string, job Run) string {
	seconds := value{"LIMIT", wholeSeconds(job.Limit)}
	return g.script("start", seconds, value{"PROOF", proof},
		value{"STALE", wholeSeconds(staleAfter(g, step))},
		value{"ID", strings.Join([]string{g.Operation(), string(step), attempt, g.Manifest()}, " ")},
		value{"OPERATION", g.Operation()},
		value{"JOB", job.Script},
		value{"WRAP", render("wrap", value{"STATE", StateFolder}, seconds)})
}

// staleLimit is how long an upgrade counts as at work between two steps. The program that drives an
// upgrade looks every few seconds.
const staleLimit = time.Minute

// staleAfter is how long an upgrade counts as at work after the end of a job. The driver waits for
// what follows a restart without a job.
func staleAfter(g Goal, step Name) time.Duration {
	if step == Restart {
		return g.readyWithin() + staleLimit
	}
	return staleLimit
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)
}

// SendScript appends length bytes of stdin to a part of a file of the bundle, that must have offset bytes. Where whole is set, the part is the
// file afterwards, if its digest is right. A connection that ends in between leaves a part that is shorter, and is gone on with.
func SendScript(g Goal, send Send, offset, length int64, whole bool) string {
	last := ""
	if whole {
		last = "yes"
	}
	return g.script("send",
		value{"FILE", send.Path}, value{"PART", send.Part}, value{"DIGEST", string(send.Digest)},
		value{"OFFSET", strconv.FormatInt(offset, 10)}, value{"LENGTH", strconv.FormatInt(length, 10)},
		value{"LAST", last})
}

// SendMoved is the exit code of SendScript where the part is not as long as was thought: an earlier part arrived whose answer was lost.
const SendMoved = 76
