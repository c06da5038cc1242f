package hookserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/loglimit"
)

// maxRefusals and maxRefusalsEach bound the lines a minute about refused calls: of all, and of one
// address. A caller has many ports, and a process behind a proxy many callers.
const maxRefusals, maxRefusalsEach = 60, 5

// Refusals counts and logs calls of hooks that no object in the management cluster asks for. Calls in
// this process have no address, and do not count. A nil one does nothing. It is safe for concurrent
// use.
type Refusals struct {
	refused *prometheus.CounterVec
	lines   *loglimit.Lines
}

// NewRefusals registers windlass_hook_refusals_total with a registry. It fails where that name is
// taken.
func NewRefusals(registry prometheus.Registerer) (*Refusals, error) {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "windlass_hook_refusals_total",
		Help: "Calls of hooks that were refused because no object asks for them.",
	}, []string{"hook", "reason"})
	if err := registry.Register(refused); err != nil {
		return nil, fmt.Errorf("registering the metrics of refused calls: %w", err)
	}
	return &Refusals{refused: refused, lines: loglimit.New(time.Now, maxRefusals, maxRefusalsEach)}, nil
}

// unaskedError is an error about a call that no object asks for. UnaskedReason returns one of few
// constants; empty if the error is about no call.
type unaskedError interface {
	error
	UnaskedReason() string
}

// report counts and logs the answer to a call if it is a refusal. hook is a constant.
func (r *Refusals) report(ctx context.Context, hook string, err error) {
	caller, fromPort := ctx.Value(callerKey{}).(string)
	unasked, is := errors.AsType[unaskedError](err)
	if r == nil || !fromPort || !is || unasked.UnaskedReason() == "" {
		return
	}
	reason := unasked.UnaskedReason()
	r.refused.WithLabelValues(hook, reason).Inc()
	host, _, _ := net.SplitHostPort(caller) // Callers without an address share lines.
	r.lines.Limit(log.FromContext(ctx), host).Info("Refused a call of a hook that no object asks for",
		"caller", caller, "hook", hook, "reason", reason, "message", boundMessage(err.Error()))
}

// callerKey is the key of a caller's address in the context of its request.
type callerKey struct{}
