package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// cluster is what stands in the store about one cluster.
type cluster struct {
	*Cluster
	index int
	key   types.NamespacedName
	// asked says that its target has been set.
	asked    bool
	recorded chain.Recorded
	// revision is the resource version of the Cluster object.
	revision uint64
	// groups begin with the control plane. workers counts the machines of the others by what their kubelet runs.
	groups  []*group
	workers []versionCount
	stamp   version.Version
	scopes  map[string]*scope
	due     due

	// decision is the engine's last.
	decision chain.Decision
	// done says that the chain is over, ended that its machines rest as well.
	done, ended bool
	// state and the groups in it are read into the same memory each time.
	state []chain.Group
	hold  *span
	// heldBy names what let it wait last.
	heldBy  string
	spans   []span
	run     ClusterRun
	trouble string
	trace   []string
}

func (c *cluster) controlPlane() *group { return c.groups[0] }

// due is a controller's place in its work queue: an object stands there once, at its earliest time.
type due struct {
	at      time.Duration
	gen     uint32
	pending bool
}

// group is a control plane or a pool of workers.
type group struct {
	cluster *cluster
	id      uint32
	name    string
	kind    plan.GroupKind
	update  *Update
	desired int
	// limits are those of a rollout.
	limits    pool.Budget
	minorStep uint32
	isCP      bool

	// template is the version that its object asks for.
	template version.Version
	// decision is what is recorded for machines that are updated in place to the template.
	decision *inplace.Decision
	// machines are all that exist, and some that are gone.
	machines []*machine
	// old are the machines at another version that nothing happens to yet, from next on. fresh counts those at the template's version that are
	// available, changing all that are in change.
	old  []*machine
	next int
	// unordered says that old is not in the order of the policy.
	unordered bool
	fresh     int
	changing
	sets sets
	// begun counts those of updating whose update has begun: they are down.
	begun int
	// off counts machines that are not made for the template, or do not run it.
	off int
	// kubelets counts machines by what their kubelet runs.
	kubelets []versionCount
	// shown is what others than the engine have last changed, and before what it was until changed.
	shown, before groupView
	changed       time.Duration
	due           due
	made          uint64
	// refused says that the guard has refused it a machine.
	refused bool
	// heldBy says which limit of its policy lets no other machine begin; empty if none does.
	heldBy string
	// op is the way to the template that is under way; nil when there is none.
	op    *operation
	scope *scope
	tally tally
	// canary is what keeps its machines from beginning besides scope.
	canary canary
}

// groupView is what the chain reads of a group, but for what the engine has written itself.
type groupView struct {
	oldest version.Version
	// settled is the version that all machines are made for and run; zero if they differ.
	settled version.Version
	// missing is how many machines a MachineDeployment lacks.
	missing int32
}

type versionCount struct {
	version version.Version
	n       int
}

// state is what happens to a machine.
type state uint8

const (
	idle state = iota
	coming
	going
	updating
	gone
)

type machine struct {
	group *group
	id    int32
	// subject identifies it to the random numbers.
	subject uint64
	domain  int32
	state   state
	failed  bool
	// replaces says that it was created in the place of another one and not updated since. since is
	// when that was asked for.
	replaces bool
	since    time.Duration
	// place is that in the order of the policy.
	place policy.Place

	// made is what its spec asks for, kubelet what its node runs; zero while there is no node.
	made, kubelet version.Version
	cordoned      bool
	// readyAt is when its node is or was Ready last.
	readyAt time.Duration

	// decision is what its update carries out. progress and last are recorded on it.
	decision *inplace.Decision
	progress *inplace.Progress
	last     *inplace.Summary
	retry    bool
	updates  uint64

	// draining says that its node is being drained, until drainEnds at the earliest, and drained that it has been since it was cordoned.
	draining, drained bool
	drainEnds         time.Duration
	work              work
	// gen is the generation of its next poll.
	gen uint32
	// queued says that it waits for a slot, and promised that one is free when it asks next.
	queued, promised bool
	// skipping is the interval of its calls that are skipped; zero where none is.
	skipping time.Duration
}

// work is what an updater does, or has done last, on a machine.
type work struct {
	operation          string
	ends               time.Duration
	fails, hangs, sets bool
	ended, begun       bool
}

// scope is what shares a policy's maxInFlight within a cluster.
type scope struct {
	name string
	max  int
	// groups are those that share it.
	groups []*group
	// inFlight are the machines with progress on record, and their updates; shown is what the cache has of that, behind by the pending changes.
	inFlight, shown map[int32]string
	pending         []change
	// waiting are the machines whose calls are skipped while they must wait for others, and promised counts those that find a free slot when they ask next. line is the
	// engine's memory of when they ask.
	waiting  waiters
	promised int
	line     inplace.Line
}

type change struct {
	at time.Duration
	id int32
	// update is the one that began; empty where one ended.
	update string
}

// build makes the world that a Config begins with.
func (s *sim) build() {
	for i := range s.cfg.Clusters {
		cfg := &s.cfg.Clusters[i]
		c := &cluster{
			Cluster: cfg, index: i, key: types.NamespacedName{Namespace: "sim", Name: cfg.Name}, scopes: map[string]*scope{},
			run: ClusterRun{Name: cfg.Name},
		}
		cp := s.addGroup(c, ControlPlaneGroup, &cfg.ControlPlane.Update)
		cp.isCP, cp.desired, cp.template = true, cfg.ControlPlane.Replicas, cfg.ControlPlane.Version
		cp.limits = pool.NewBudget(int32Of(cp.desired), int32Of(cfg.ControlPlane.MaxSurge), 0)
		s.fill(cp, version.Version{}, 0)
		for j := range cfg.Pools {
			p := &cfg.Pools[j]
			g := s.addGroup(c, p.Name, &p.Update)
			g.kind, g.desired, g.minorStep, g.template = cmp.Or(p.Kind, plan.MachineDeployment), p.Replicas, p.MaxMinorStep, p.Version
			g.limits = p.Limits()
			s.fill(g, p.Oldest, p.Lagging)
		}
		c.state = make([]chain.Group, len(cfg.Pools))
		s.clusters = append(s.clusters, c)
	}
}

func (s *sim) addGroup(c *cluster, name string, u *Update) *group {
	g := &group{cluster: c, id: uint32(len(s.groups)), name: name, update: u} //nolint:gosec // bounded by memory
	c.groups = append(c.groups, g)
	s.groups = append(s.groups, g)
	// The machines of a control plane go one by one, and count for no policy's maxInFlight.
	key := u.PolicyName
	if name == ControlPlaneGroup {
		key = "\x00" + name
	}
	if c.scopes[key] == nil {
		c.scopes[key] = &scope{name: c.Name + "/" + key, max: int(u.Policy.MaxInFlight), inFlight: map[int32]string{}, shown: map[int32]string{}}
	}
	g.scope = c.scopes[key]
	g.scope.groups = append(g.scope.groups, g)
	return g
}

// fill makes a group's machines, of which some run an older version than its template asks for.
func (s *sim) fill(g *group, oldest version.Version, lagging int) {
	slab := make([]machine, g.desired)
	for i := range slab {
		m := &slab[i]
		s.adopt(g, m)
		m.made, m.kubelet = g.template, g.template
		if i < lagging && !oldest.IsZero() {
			m.made, m.kubelet = oldest, oldest
			g.old = append(g.old, m)
			g.off++
		} else {
			g.fresh++
		}
		s.count(g, m.kubelet, 1)
	}
	g.sets.replicas, g.sets.earlierReplicas = g.fresh, g.waiting()
	s.show(g)
	g.before = g.shown
	g.tally.GroupRun = GroupRun{Cluster: g.cluster.Name, Group: g.name, Machines: g.desired}
}

// adopt gives a new machine its place in the world.
func (s *sim) adopt(g *group, m *machine) {
	m.group, m.id = g, int32(len(s.machines)) //nolint:gosec // bounded by memory
	m.subject = mix(uint64(g.id)) ^ g.made
	m.domain = s.domainOf(g, g.made)
	m.place = s.place(g, m, m.replaces)
	g.made++
	g.machines = append(g.machines, m)
	s.machines = append(s.machines, m)
}

func (s *sim) domainOf(g *group, n uint64) int32 {
	names := g.update.Domains
	if len(names) == 0 {
		names = []string{""}
	}
	name := names[n%uint64(len(names))]
	at := slices.IndexFunc(s.domains, func(d domain) bool { return d.name == name })
	if at < 0 {
		at = len(s.domains)
		s.domains = append(s.domains, domain{name: name})
	}
	return int32(at) //nolint:gosec // bounded by memory
}

// domain is a failure domain of the fleet: sites that share a name share their outages.
type domain struct {
	name string
	away bool
	// back is when an outage ends; n counts outages.
	back time.Duration
	n    uint64
}

// count notes that so many more nodes of a group run a version from now on.
func (s *sim) count(g *group, v version.Version, by int) {
	if v.IsZero() {
		return
	}
	g.kubelets = count(g.kubelets, v, by)
	if !g.isCP {
		g.cluster.workers = count(g.cluster.workers, v, by)
	}
	if s.rec.detail {
		s.rec.versions = append(s.rec.versions, versionChange{at: s.now, version: v, by: by})
	}
}

func count(list []versionCount, v version.Version, by int) []versionCount {
	for i := range list {
		if list[i].version == v {
			list[i].n += by
			return list
		}
	}
	return append(list, versionCount{version: v, n: by})
}

// waiting counts the machines at another version that nothing happens to yet.
func (g *group) waiting() int { return len(g.old) - g.next }

// moving counts the machines that are created, deleted, or updated in place.
func (g *group) moving() int { return g.updating + g.coming + g.going }

// present counts the machines that are not being deleted.
func (g *group) present() int { return g.waiting() + g.updating + g.fresh + g.coming }

// oldest is the oldest version that a kubelet of the group runs, the template's where there is none.
func (g *group) oldest() version.Version {
	oldest := g.template
	for _, k := range g.kubelets {
		if k.n > 0 && version.Compare(k.version, oldest) == version.Less {
			oldest = k.version
		}
	}
	return oldest
}

// missing returns how many machines with a Node a MachineDeployment lacks, once all are at the
// template's version.
func (g *group) missing() int32 {
	if g.off > 0 || g.kind != plan.MachineDeployment {
		return 0
	}
	return int32(max(g.desired-g.fresh-g.updating, 0)) //nolint:gosec // at most as many as a fleet has
}

// show brings up to date what the chain reads of the group. It reports whether that has changed.
func (s *sim) show(g *group) bool {
	now := groupView{oldest: g.oldest(), missing: g.missing()}
	// A control plane without a machine reports what it reported before.
	if g.off == 0 && (!g.isCP || g.fresh+g.updating > 0) {
		now.settled = g.template
	}
	if now == g.shown {
		return false
	}
	g.before, g.shown, g.changed = g.shown, now, s.now
	if now.settled == g.template && g.op != nil && g.op.released == 0 {
		g.op.released = s.now
	}
	return true
}

// setTemplate is what the engine's apply does.
func (s *sim) setTemplate(g *group, v version.Version) {
	from := g.oldest()
	g.template = v
	id := g.name + "-" + v.String()
	g.decision = &inplace.Decision{ID: id, Target: id, Steps: g.update.Steps}
	if g.isCP {
		g.decision.Target = ""
	}
	g.old, g.next, g.off, g.fresh, g.changing, g.sets = g.old[:0], 0, 0, 0, changing{}, sets{}
	g.machines = slices.DeleteFunc(g.machines, func(m *machine) bool { return m.state == gone })
	for _, m := range g.machines {
		if m.made != v || m.kubelet != v && m.state != coming {
			g.off++
		}
		g.countChange(m, 1)
		if m.state == idle {
			s.arrived(m)
		}
	}
	e := g.sets.earlier
	g.sets.replicas = g.fresh + g.updating + g.coming - e.updating - e.coming
	g.sets.earlierReplicas = g.waiting() + e.updating + e.coming
	g.refused = false
	s.beginOperation(g, from)
	s.countCanary(g, 0, -g.canary.settled)
	s.show(g)
	s.wakeGroup(g)
}

// isOff reports whether a machine is not made for its group's template, or does not run it.
func (m *machine) isOff() bool {
	return m.made != m.group.template || m.kubelet != m.group.template
}

func (m *machine) name() string {
	return m.group.cluster.Name + "/" + m.group.name + "/" + strconv.Itoa(int(m.id))
}

// note keeps what has happened for the trace of a violation.
func (c *cluster) note(s *sim, format string, args ...any) {
	if !s.cfg.Verify {
		return
	}
	const most = 24
	if len(c.trace) == most {
		c.trace = slices.Delete(c.trace, 0, 1)
	}
	c.trace = append(c.trace, fmt.Sprintf("%s: ", s.now.Round(time.Second))+fmt.Sprintf(format, args...))
}
