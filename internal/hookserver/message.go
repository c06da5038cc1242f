package hookserver

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/loglimit"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxMessageBytes bounds what a response says and what is logged of a request. A condition's message may have 32768
// bytes, of which Cluster API needs some for its own words; a person reads far fewer.
const maxMessageBytes = 2048

// boundMessage makes text from outside fit for a condition and a log.
func boundMessage(s string) string { return text.Bound(s, maxMessageBytes) }

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// maxOutcomes bounds the memory of outcomes: well above the clusters of one management cluster.
const maxOutcomes = 10_000

// maxLines and maxLinesEach bound the lines a minute of a kind: of all, and about one cluster. Callers
// can name any clusters, and alternate between outcomes.
const maxLines, maxLinesEach = 300, 5

// outcomes remembers the last answer about each cluster, for the log.
type outcomes struct {
	last  *keyed.Once[types.NamespacedName]
	lines *loglimit.Lines
}

func newOutcomes() outcomes {
	return outcomes{
		last:  keyed.NewOnce[types.NamespacedName](keyed.Forever, maxOutcomes),
		lines: loglimit.New(time.Now, maxLines, maxLinesEach),
	}
}

// logger returns what logs an outcome, within bounds. It returns false if the outcome is the last one
// about the same cluster, and remembers it otherwise. A full memory is dropped, which repeats some
// lines in the log.
func (o outcomes) logger(
	ctx context.Context, cluster types.NamespacedName, outcome string,
) (logr.Logger, bool) {
	const longest = 253
	logger := o.lines.Limit(log.FromContext(ctx), cluster.String())
	if len(cluster.Name) > longest || len(cluster.Namespace) > longest {
		// Not the name of any object; keep the memory's bound.
		return logger, true
	}
	return logger, o.last.Changed(cluster, outcome, time.Time{})
}
