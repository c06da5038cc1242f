package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/version"
)

// sim is one run.
type sim struct {
	// earlierSet is the memory of rollout.
	earlierSet [1]pool.Sizes

	cfg    *Config
	seed   uint64
	engine Engine
	now    time.Duration
	queue  queue

	clusters []*cluster
	groups   []*group
	machines []*machine
	domains  []domain
	// started is how many machines there were to begin with.
	started int
	// next is the first cluster that has not been asked for, running how many are under way.
	next, running int

	// answers and slots are the memory of the engine's process, which a crash loses. It is away until up.
	answers *chain.Answers
	slots   *inplace.InFlight[int32]
	up      time.Duration
	crashed bool
	faults  *rand.Rand
	budget  budget
	writes  int

	// exact has every call made, also where its answer is known.
	exact bool
	check *checker
	rec   recorder
}

// Simulate runs the upgrade that c asks for, to its end. The error is about c, or ctx's; what goes wrong in the simulated world is in the Run. It does not
// change c, and is safe for concurrent use.
func Simulate(ctx context.Context, c Config, seed uint64) (Run, error) {
	s, err := newSim(&c, seed)
	if err != nil {
		return Run{}, err
	}
	return s.run(ctx)
}

func newSim(c *Config, seed uint64) (*sim, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	s := &sim{
		cfg: c, seed: seed, engine: c.Engine.withDefaults(), budget: newBudget(c.Budget), exact: c.Faults.Any(),
		faults: rand.New(rand.NewPCG(seed, seed^0x5851f42d4c957f2d)), //nolint:gosec // Simulated faults are no secrets.
	}
	s.forget()
	s.rec.detail = c.Detail
	if c.Verify {
		s.check = &checker{sim: s, passed: map[passKey]time.Duration{}, lost: map[*group]lostCanaries{}}
	}
	s.build()
	s.started = len(s.machines)
	return s, nil
}

func (e Engine) withDefaults() Engine {
	if e.Chain == nil {
		e.Chain = chain.Decide
	}
	if e.Carry == nil {
		e.Carry = chain.Execute
	}
	if e.Machine == nil {
		e.Machine = inplace.Execute
	}
	if e.ControlPlane == nil {
		e.ControlPlane = DecideControlPlane
	}
	if e.Pool == nil {
		e.Pool = decidePool
	}
	if e.Canary == nil {
		e.Canary = pool.Limits.IsCanary
	}
	return e
}

// forget is what a restart does to the engine's process.
func (s *sim) forget() {
	s.answers, s.slots = &chain.Answers{}, inplace.NewInFlight[int32]()
	for _, c := range s.clusters {
		for _, scope := range c.scopes {
			scope.line = inplace.Line{}
		}
	}
}

// look is how many events pass between two looks at the context.
const look = 1 << 12

func (s *sim) run(ctx context.Context) (Run, error) {
	s.beginClusters()
	s.beginOutages()
	horizon := s.cfg.Horizon
	if horizon == 0 {
		horizon = DefaultHorizon
	}
	outcome := Outcome("")
	for outcome == "" {
		if s.rec.events%look == 0 && ctx.Err() != nil {
			return Run{}, fmt.Errorf("simulating: %w", ctx.Err())
		}
		outcome = s.step(ctx, horizon)
	}
	if s.check != nil && outcome == Completed {
		s.check.ends()
	}
	if s.check != nil && s.check.violation != nil {
		outcome = Violated
	}
	return s.result(outcome), nil
}

// A run that comes to more events goes nowhere: machines fail again and again, say. An event takes about ten microseconds.
const (
	mostEvents           = 1_000_000
	mostEventsPerMachine = 5_000
)

// step lets the next event happen. It returns how the run has ended; empty while it goes on.
func (s *sim) step(ctx context.Context, horizon time.Duration) Outcome {
	e, ok := s.queue.pop()
	switch {
	case !ok, e.kind.isOutage() && s.queue.live == 0:
		return Stuck
	case e.at > horizon:
		s.now = horizon
		return GivenUp
	case s.rec.events > mostEvents+mostEventsPerMachine*s.started:
		return GivenUp
	}
	s.now = e.at
	s.rec.events++
	s.happen(ctx, e)
	switch {
	case s.check != nil && s.check.violation != nil:
		return Violated
	case s.running == 0 && s.next == len(s.clusters):
		return Completed
	default:
		return ""
	}
}

// skewOf is the skew policy of a cluster.
func (s *sim) skewOf(c *cluster) version.SkewPolicy {
	if len(c.Skew.Rules) == 0 {
		return version.KubernetesSkew()
	}
	return c.Skew
}

// isEngines reports whether an event is one that the engine's process acts on.
func (k kind) isEngines() bool { return k == reconcileTopology || k == updateMachine }

// happen lets one event happen.
func (s *sim) happen(ctx context.Context, e event) {
	if e.kind.isEngines() && s.postpone(e) {
		return
	}
	switch e.kind {
	case beginCluster:
		s.ask(s.clusters[e.id])
	case reconcileTopology:
		if c := s.clusters[e.id]; c.due.ran(e) {
			s.reconcileTopology(ctx, c)
		}
	case reconcileGroup:
		if g := s.groups[e.id]; g.due.ran(e) {
			s.rollOut(g)
		}
	case updateMachine:
		if m := s.machines[e.id]; m.gen == e.gen {
			s.updateMachine(ctx, m)
		}
	case outageBegins, outageEnds:
		s.changeOutage(e.id, e.kind == outageBegins)
	case created, deleted, gaveUp, attended:
		s.happenTo(s.machines[e.id], e.kind)
	}
}

// happenTo lets something happen to one machine that others than the engine do.
func (s *sim) happenTo(m *machine, k kind) {
	switch k {
	case created:
		s.created(m)
	case deleted:
		s.deleted(m)
	case gaveUp:
		s.gaveUp(m)
	case attended:
		s.attended(m)
	case beginCluster, reconcileTopology, reconcileGroup, updateMachine, outageBegins, outageEnds:
	}
}

// postpone puts an event off that the engine cannot act on yet: its process is away, or has no request left. A call of a hook costs one read of the
// Machine, which is the kind that is read most; that of a machine that waits for a slot while none is free costs none.
func (s *sim) postpone(e event) bool {
	s.crashed = false
	if s.now < s.up {
		e.at = s.up
		s.queue.push(e)
		return true
	}
	if e.kind != updateMachine || e.paid || s.machines[e.id].gen != e.gen || s.asksInVain(s.machines[e.id]) {
		return false
	}
	wait := s.budget.take(s.now)
	s.machines[e.id].group.op.throttled(wait)
	if wait == 0 {
		return false
	}
	e.at, e.paid = s.now+wait, true
	s.queue.push(e)
	return true
}

// asksInVain reports whether a machine waits for others, and must wait on.
func (s *sim) asksInVain(m *machine) bool {
	return m.queued && (m.group.scope.free() <= 0 || m.group.holdsBack())
}

var (
	errCrashed = errors.New("the process has died")
	errLost    = errors.New("the request failed")
)

// strikes reports whether a fault of so high a rate happens now.
func (s *sim) strikes(rate float64) bool { return rate > 0 && s.faults.Float64() < rate }

// write is one request of the engine that changes something.
func (s *sim) write(do func()) error {
	if s.crashed {
		return errCrashed
	}
	s.writes++
	s.budget.take(s.now)
	f := &s.cfg.Faults
	crashes := s.strikes(f.Crash)
	fails := crashes || s.strikes(f.Lost)
	// Half of the requests that fail fail after they were done.
	if !fails || s.faults.Uint64()&1 == 0 {
		do()
	}
	if crashes {
		s.crashed, s.up = true, s.now+f.Restart
		s.restart()
		return errCrashed
	}
	if fails {
		return errLost
	}
	return nil
}

// restart is what a process does when it starts: it reads everything anew, and looks at everything.
func (s *sim) restart() {
	s.forget()
	for _, c := range s.clusters {
		for _, scope := range c.scopes {
			scope.catchUp(s.now)
		}
		if c.asked && !c.ended {
			s.wakeTopology(c, s.cfg.Faults.Restart)
		}
	}
}

// beginClusters asks for the upgrades of the first clusters, and then of one more for each that has ended.
func (s *sim) beginClusters() {
	for s.next < len(s.clusters) && (s.cfg.ClustersAtOnce < 1 || s.running < s.cfg.ClustersAtOnce) {
		s.schedule(beginCluster, int32(s.next), 0) //nolint:gosec // bounded by memory
		s.next++
		s.running++
	}
}

func (s *sim) ask(c *cluster) {
	c.asked, c.run.Began = true, s.now
	c.note(s, "the upgrade to %s is asked for", c.Target)
	for _, g := range c.groups {
		if g.off > 0 {
			// A rollout was under way.
			s.setTemplate(g, g.template)
		}
	}
	s.wakeTopology(c, 0)
}

// end ends a cluster's upgrade when the chain is over and nothing happens to a machine any more: the last ones may still be soaking, or coming.
func (s *sim) end(c *cluster) {
	moving := slices.ContainsFunc(c.groups, func(g *group) bool { return g.op != nil || g.fresh < g.desired })
	if !c.done || c.ended || moving {
		return
	}
	c.ended, c.run.Ended = true, s.now
	s.running--
	s.beginClusters()
}

func (s *sim) beginOutages() {
	if s.cfg.Faults.OutageEvery.IsZero() {
		return
	}
	for i := range s.domains {
		s.scheduleOutage(int32(i))
	}
}

func (s *sim) scheduleOutage(i int32) {
	d := &s.domains[i]
	d.n++
	s.schedule(outageBegins, i, max(time.Second, s.sample(s.cfg.Faults.OutageEvery, forOutage, uint64(i), 2*d.n))) //nolint:gosec // an index
}

// changeOutage begins an outage of a failure domain, or ends it and waits for the next.
func (s *sim) changeOutage(i int32, begins bool) {
	d := &s.domains[i]
	d.away = begins
	if !begins {
		s.scheduleOutage(i)
		return
	}
	lasts := max(time.Second, s.sample(s.cfg.Faults.Outage, forOutage, uint64(i), 2*d.n+1)) //nolint:gosec // an index
	d.back = s.now + lasts
	s.schedule(outageEnds, i, lasts)
}
