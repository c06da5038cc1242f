package fleet

import "github.com/windlass-dev/windlass/internal/inplace"

// recordCanary records that a canary has failed and is about to be remediated, unless its update
// was to an earlier template. A person who attends to failed machines has the next one tried.
func (s *sim) recordCanary(m *machine, p *inplace.Progress) {
	g := m.group
	if g.update.Limits == nil || g.op == nil || m.made != g.template {
		return
	}
	now := s.observe(g).Progress
	now.Replicas = int32Of(g.desired)
	if !s.engine.Canary(*g.update.Limits, now) {
		return
	}
	g.op.canaries = g.op.canaries.With(newSet, []string{m.name()})
	if attend := g.update.Timings.Attend; !attend.IsZero() {
		attempts := uint64(p.Operations) //nolint:gosec // It is a count.
		after := s.sample(attend, forAttend, m.subject, attempts)
		s.schedule(attended, m.id, after)
	}
}

// retryCanary is a person who asks for a retry after a machine has failed and was remediated.
func (s *sim) retryCanary(m *machine) {
	o := m.group.op
	if o == nil || o.canaries == nil || o.canaries.Retried {
		return
	}
	retried := *o.canaries
	retried.Retried = true
	o.canaries = &retried
	if s.check != nil {
		s.check.retries(m.group)
	}
	m.group.cluster.trouble = ""
	s.wakeGroup(m.group)
}
