package guardwebhook

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windlass-dev/windlass/internal/guard"
)

// GuardMetrics counts what the guard refuses. A nil one counts nothing.
type GuardMetrics struct {
	denials *prometheus.CounterVec
}

// NewGuardMetrics registers windlass_guard_denials_total with a registry. It fails where that name is taken.
func NewGuardMetrics(registry prometheus.Registerer) (*GuardMetrics, error) {
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "windlass_guard_denials_total",
		Help: "Requests to create or delete a Machine that the guard refused, without dry runs.",
	}, []string{"operation", "reason"})
	if err := registry.Register(denials); err != nil {
		return nil, fmt.Errorf("registering the guard's metrics: %w", err)
	}
	return &GuardMetrics{denials: denials}, nil
}

func (m *GuardMetrics) count(operation guard.Operation, reason guard.Reason) {
	if m == nil {
		return
	}
	name := "create"
	if operation == guard.Delete {
		name = "delete"
	}
	m.denials.WithLabelValues(name, string(reason)).Inc()
}
