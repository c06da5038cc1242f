package k8sdtest

import (
	"strconv"
	"sync"
	"time"
)

// machine is one node. mu is held while a request about it is served, and while a change is applied; faults have a lock of their own, so that they can
// be changed while a request hangs.
type machine struct {
	name string

	mu      sync.Mutex
	state   MachineState
	running *change
	changes map[string]*change
	// history has all that ever began, in order, those that were forgotten too.
	history []*change

	faultsMu sync.Mutex
	faults   Faults
}

// change is a change as snapd has them.
type change struct {
	id     string
	option Option
	// end is when it is due, ended when it really ended.
	begun, end, ended time.Time
	completed         bool
	failed            string
}

// status is snapd's word for how far it is.
func (c *change) status() string {
	switch {
	case !c.completed:
		return "Doing"
	case c.failed != "":
		return "Error"
	default:
		return "Done"
	}
}

// takeFaults gives the faults that hit a request now, and counts it.
func (m *machine) takeFaults() Faults {
	m.faultsMu.Lock()
	defer m.faultsMu.Unlock()
	taken := m.faults
	if m.faults.Times > 0 && m.faults.hits() {
		m.faults.Times--
		if m.faults.Times == 0 {
			m.faults = Faults{FailChanges: taken.FailChanges, RestartFor: taken.RestartFor}
		}
	}
	return taken
}

// lastingFaults are the faults as they are; what lasts of them has nothing to do with requests.
func (m *machine) lastingFaults() Faults {
	m.faultsMu.Lock()
	defer m.faultsMu.Unlock()
	return m.faults
}

// begin begins a change. The machine's lock is held, and none goes on.
func (s *Server) begin(m *machine, option Option) *change {
	s.mu.Lock()
	s.nextID++
	id, duration := strconv.Itoa(s.nextID), s.duration
	s.mu.Unlock()
	now := s.options.Now()
	m.running = &change{id: id, option: option, begun: now, end: now.Add(duration)}
	m.changes[id] = m.running
	m.history = append(m.history, m.running)
	m.state.Refreshes++
	if s.realClock {
		time.AfterFunc(duration, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			s.settle(m)
		})
	}
	return m.running
}

// settle ends the change that goes on, if its time is over. The machine's lock is held.
func (s *Server) settle(m *machine) {
	c := m.running
	if c == nil || s.options.Now().Before(c.end) || s.ctx.Err() != nil {
		return
	}
	m.running, c.completed = nil, true
	defer func() { c.ended = s.options.Now() }()
	if c.failed = m.lastingFaults().FailChanges; c.failed != "" {
		return
	}
	if s.options.Apply != nil {
		if err := s.options.Apply(s.ctx, m.name, c.option); err != nil {
			c.failed = err.Error()
			return
		}
	}
	m.state.Installed = c.option
	m.state.Completed++
}

// restarts says whether k8sd is away because of the change that goes on.
func (s *Server) restarts(m *machine) bool {
	away := m.lastingFaults().RestartFor
	if m.running == nil || away <= 0 {
		return false
	}
	middle := m.running.begun.Add(m.running.end.Sub(m.running.begun) / 2)
	now := s.options.Now()
	return !now.Before(middle) && now.Before(middle.Add(away))
}
