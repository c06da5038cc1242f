package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
)

// Kinds of objects beside those that every History follows.
const (
	kindGate  = "UpgradeGate"
	kindLease = "Lease"
	// managerLease is the name of the lease of Cluster API's core manager, whoever holds it.
	managerLease = "controller-leader-election-capi"
)

// What moves a machine.
const (
	moveCreation = "Creation"
	moveUpdate   = "InPlaceUpdate"
	moveRemoval  = "Removal"
)

const (
	controller = "the controller"
	pause      = "pause"
)

// isAbout tells the facts about a Cluster: its objects, the gates of its namespace, and the
// manager's lease.
func isAbout(cluster types.NamespacedName) func(history.Fact) bool {
	return func(f history.Fact) bool {
		switch f.Kind {
		case kindGate:
			return f.Cluster.Namespace == cluster.Namespace
		case kindLease:
			return f.Name == managerLease
		}
		return f.Cluster == cluster
	}
}

// Truth answers the questions about a Cluster from the facts that isAbout tells, up to a time: for
// each moment at which one was seen, and for those at which the manager has been silent for long.
// Which groups take part in a step is known only from what they did later.
func Truth(facts []history.Fact, cluster types.NamespacedName, until time.Time) []Moment {
	facts = append(slices.Clone(facts), silences(facts, until)...)
	slices.SortStableFunc(facts, func(a, b history.Fact) int { return a.Seen.Compare(b.Seen) })
	steps := map[step]map[string]bool{}
	// The first pass finds which groups take part in which step.
	first := newWorld(cluster, steps)
	for _, f := range facts {
		first.take(f)
	}
	var moments []Moment
	w := newWorld(cluster, steps)
	for _, f := range facts {
		w.take(f)
		if w.cluster.UID == "" {
			continue
		}
		moments = append(moments, Moment{
			At: f.Seen, Answers: w.answers(f.Seen), Silent: w.silent(), Objects: w.snapshot(),
		})
	}
	return moments
}

// step is one of the n-th upgrade.
type step struct {
	upgrade int
	name    string
}

// world is what is known of a Cluster at a time.
type world struct {
	key          types.NamespacedName
	latest       map[types.UID]history.Fact
	cluster      history.Fact
	controlPlane history.Fact
	groups       []history.Fact
	machines     []history.Fact
	gates        []history.Fact
	lease        history.Fact

	// ready are the machines that have been Ready.
	ready map[types.UID]bool
	// created says that each part had its machines once.
	created bool
	// upgrade counts upgrades; underWay says that the last one has not ended.
	upgrade  int
	underWay bool
	// before are the versions of the parts when the upgrade began, by group.
	before map[string]string
	// steps are the groups of each step; done are the steps of the upgrade that are done.
	steps map[step]map[string]bool
	done  map[string]certainty
	since map[string]time.Time
}

func newWorld(key types.NamespacedName, steps map[step]map[string]bool) *world {
	return &world{
		key: key, latest: map[types.UID]history.Fact{}, ready: map[types.UID]bool{}, steps: steps,
		done: map[string]certainty{}, since: map[string]time.Time{}, before: map[string]string{},
	}
}

func (w *world) take(f history.Fact) {
	if f.Gone {
		delete(w.latest, f.UID)
	} else {
		w.latest[f.UID] = f
	}
	w.sort()
	if f.Kind == history.KindMachine && isReady(f) {
		w.ready[f.UID] = true
	}
	w.follow()
}

// sort puts the objects that exist where they belong.
func (w *world) sort() {
	w.cluster, w.controlPlane, w.lease = history.Fact{}, history.Fact{}, history.Fact{}
	w.groups, w.machines, w.gates = nil, nil, nil
	for _, f := range w.latest {
		switch f.Kind {
		case history.KindCluster:
			w.cluster = f
		case history.KindControlPlane:
			w.controlPlane = f
		case history.KindGroup:
			w.groups = append(w.groups, f)
		case history.KindMachine:
			w.machines = append(w.machines, f)
		case kindGate:
			w.gates = append(w.gates, f)
		case kindLease:
			w.lease = f
		}
	}
	byName := func(a, b history.Fact) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(w.groups, byName)
	slices.SortFunc(w.machines, byName)
	slices.SortFunc(w.gates, byName)
}

// follow sees upgrades begin and end, and their steps.
func (w *world) follow() {
	target := w.cluster.Version
	if target == "" {
		return
	}
	arrived := w.isOver(target)
	switch {
	case !w.created:
		w.created = w.isCreated()
	case !w.underWay && !w.allAsk(target):
		w.upgrade++
		w.underWay, w.done, w.before = true, map[string]certainty{}, map[string]string{}
		for _, p := range w.parts() {
			w.before[p.Group] = p.Version
		}
	case w.underWay && arrived:
		w.underWay = false
	}
	if w.underWay {
		w.followSteps()
	}
}

// parts are the control plane and the groups.
func (w *world) parts() []history.Fact {
	leaves := func(g history.Fact) bool { return g.Deleting }
	parts := slices.DeleteFunc(slices.Clone(w.groups), leaves)
	if w.controlPlane.UID != "" {
		parts = append(parts, w.controlPlane)
	}
	return parts
}

// isCreated reports whether each part has its machines.
func (w *world) isCreated() bool {
	parts := w.parts()
	return w.controlPlane.UID != "" && !slices.ContainsFunc(parts, func(p history.Fact) bool {
		_, most := w.count(p, p.Version)
		return most < int(p.Replicas)
	})
}

func (w *world) allAsk(target string) bool {
	return !slices.ContainsFunc(w.parts(), func(p history.Fact) bool { return p.Version != target })
}

// isOver reports whether everything is at the target, and no hook of the upgrade is due.
func (w *world) isOver(target string) bool {
	if w.controlPlane.UID == "" || !w.allAsk(target) || w.cluster.Hooks() != "" {
		return false
	}
	for _, p := range w.parts() {
		if _, most := w.count(p, target); most < int(p.Replicas) {
			return false
		}
	}
	return true
}

func stepName(group, to string) string {
	if group == "" {
		return controlPlaneStep + to
	}
	return workersStep + to
}

func (w *world) followSteps() {
	for _, p := range w.parts() {
		if w.before[p.Group] == p.Version || p.Version == "" {
			continue
		}
		s := step{w.upgrade, stepName(p.Group, p.Version)}
		if w.steps[s] == nil {
			w.steps[s] = map[string]bool{}
		}
		w.steps[s][p.Group] = true
	}
	for s, groups := range w.steps {
		if s.upgrade != w.upgrade || w.done[s.name] == certain {
			continue
		}
		w.done[s.name] = w.isDone(s, groups)
	}
}

// certainty is how sure something is.
type certainty int

const (
	no certainty = iota
	inDoubt
	certain
)

// isDone reports whether all machines of the groups of a step run its version or a newer one, and
// rest. It is in doubt while machines that were replaced are removed, and until the owners report
// it.
func (w *world) isDone(s step, groups map[string]bool) certainty {
	to := s.name[strings.LastIndex(s.name, " ")+1:]
	parts, done := w.parts(), certain
	for group := range groups {
		i := slices.IndexFunc(parts, func(p history.Fact) bool { return p.Group == group })
		if i < 0 || !runs(parts[i].Version, to) {
			return no
		}
		p := parts[i]
		least, most := w.count(p, to)
		switch {
		case most < int(p.Replicas):
			return no
		case least < int(p.Replicas), w.isLeaving(group), p.Mixed,
			p.Kind == history.KindControlPlane && p.Reported != p.Version:
			done = inDoubt
		}
	}
	return done
}

// isLeaving reports whether a machine of a group is being removed.
func (w *world) isLeaving(group string) bool {
	return slices.ContainsFunc(w.machines, func(m history.Fact) bool {
		return m.Group == group && m.Deleting
	})
}

// count counts the machines of a part that have arrived at a version: for certain, and if in doubt.
func (w *world) count(part history.Fact, at string) (least, most int) {
	for _, m := range w.machines {
		if m.Group != part.Group || m.Deleting || !runs(m.Reported, at) ||
			!w.ready[m.UID] || isFailed(m) {
			continue
		}
		moves := w.moves(m)
		if slices.Contains(moves, "") {
			most++
		}
		if len(moves) == 1 && moves[0] == "" && isReady(m) {
			least++
		}
	}
	return min(least, int(part.Replicas)), min(most, int(part.Replicas))
}

// silent are the kinds of questions to which the objects have no answer. Without a topology there
// is no upgrade of the Cluster, but machines are updated all the same.
func (w *world) silent() []Kind {
	var kinds []Kind
	cluster, ok := w.cluster.Object.(*clusterv1.Cluster)
	managed := ok && cluster.Spec.Topology.IsDefined()
	if !managed || !w.created || w.cluster.Deleting {
		kinds = append(kinds, UnderWay, AtTarget, Done)
	}
	if managed && !w.created || w.cluster.Deleting {
		kinds = append(kinds, HeldBy, MustAct)
	}
	// Pools have machines that no History follows.
	if managed && len(cluster.Spec.Topology.Workers.MachinePools) > 0 {
		kinds = append(kinds, AtTarget, Done)
	}
	if w.lease.UID == "" {
		kinds = append(kinds, Seen)
	}
	return kinds
}

func (w *world) answers(now time.Time) Answers {
	a := Answers{}
	holds := map[string]bool{}
	for _, m := range w.machines {
		a[Question{Runs, m.Name}] = is(m.Reported)
		a[Question{Moves, m.Name}] = is(w.moves(m)...)
		hold, act := Question{HeldBy, "machine " + m.Name}, Question{MustAct, "who retries " + m.Name}
		switch {
		case isFailed(m):
			holds[hold.About] = true
			a[act] = is(Yes)
		case isRefused(m):
			a[hold], a[act] = is(Yes, ""), is(Yes, "")
		}
	}
	if w.underWay {
		a[Question{UnderWay, ""}] = is(Yes)
		for name, done := range w.done {
			switch done {
			case certain:
				a[Question{Done, name}] = is(Yes)
			case inDoubt:
				a[Question{Done, name}] = is(Yes, "")
			case no:
			}
		}
	}
	w.watchManager(a, now)
	w.countAll(a)
	w.holdAll(a, holds)
	for hold := range holds {
		if w.since[hold].IsZero() {
			w.since[hold] = now
		}
		a[Question{HeldBy, hold}] = Answer{Is: []string{Yes}, Since: w.since[hold]}
	}
	maps.DeleteFunc(w.since, func(hold string, _ time.Time) bool { return !holds[hold] })
	return a
}

func (w *world) countAll(a Answers) {
	least, most, machines := 0, 0, 0
	for _, p := range w.parts() {
		l, m := w.count(p, w.cluster.Version)
		least, most, machines = least+l, most+m, machines+int(p.Replicas)
	}
	var counts []string
	for n := least; n <= most; n++ {
		counts = append(counts, fmt.Sprintf("%d of %d", n, machines))
	}
	a[Question{AtTarget, ""}] = is(counts...)
}
