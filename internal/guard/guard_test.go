package guard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/guard"
)

// guarded is a request about a group of three whose machines are kept.
func guarded(operation guard.Operation, machines int, edits ...func(*guard.Request)) guard.Request {
	r := guard.Request{
		Operation: operation, Guarded: true, Policy: "keep", Machine: guard.Machine{Name: "m-1"},
		Group: guard.Group{Kind: "MachineDeployment", Name: "default/workers", Desired: 3, Machines: machines},
	}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func desired(n int) func(*guard.Request) { return func(r *guard.Request) { r.Group.Desired = n } }

func replaceable(n int) func(*guard.Request) {
	return func(r *guard.Request) { r.Group.Replaceable = n }
}

func machine(edit func(*guard.Machine)) func(*guard.Request) {
	return func(r *guard.Request) { edit(&r.Machine) }
}

// TestDecide goes through the ways in which Machines are made and deleted, by stock Cluster API and by people.
func TestDecide(t *testing.T) {
	mayGo := machine(func(m *guard.Machine) { m.Replaceable = true })
	remediated := machine(func(m *guard.Machine) { m.Remediating = true })
	for name, test := range map[string]struct {
		request guard.Request
		want    guard.Reason
	}{
		// What stock Cluster API does by itself.
		"control plane scales up first, with maxSurge 1":          {guarded(guard.Create, 3), guard.WouldSurge},
		"MachineDeployment surges, with maxUnavailable 0":         {guarded(guard.Create, 3), guard.WouldSurge},
		"control plane of one scales up first":                    {guarded(guard.Create, 1, desired(1)), guard.WouldSurge},
		"a preflight check fails for the Machine only":            {guarded(guard.Delete, 3), guard.WouldReplace},
		"rolloutBefore, rolloutAfter":                             {guarded(guard.Delete, 3), guard.WouldReplace},
		"a dry run is rejected":                                   {guarded(guard.Delete, 3), guard.WouldReplace},
		"a template is missing, maxUnavailable 1":                 {guarded(guard.Delete, 3), guard.WouldReplace},
		"deleted while another Machine is gone":                   {guarded(guard.Delete, 2), guard.WouldReplace},
		"a Machine is updated in place, and to be deleted":        {guarded(guard.Delete, 3, machine(func(m *guard.Machine) { m.Updating = true })), guard.WouldReplace},
		"an old MachineSet is deleted, its MachineDeployment not": {guarded(guard.Delete, 3), guard.WouldReplace},
		// Making and scaling.
		"the first Machine":     {guarded(guard.Create, 0), guard.Missing},
		"the last one of three": {guarded(guard.Create, 2), guard.Missing},
		"scaled up":             {guarded(guard.Create, 3, desired(4)), guard.Missing},
		"scaled down, with delete-machine or without": {guarded(guard.Delete, 3, desired(2)), guard.Surplus},
		"scaled down to nothing":                      {guarded(guard.Delete, 1, desired(0)), guard.Surplus},
		"scaled down in the middle of a rollout":      {guarded(guard.Delete, 4, desired(2)), guard.Surplus},
		"lowered and raised before it was acted on":   {guarded(guard.Delete, 3), guard.WouldReplace},
		"lowered, acted on, raised":                   {guarded(guard.Create, 2), guard.Missing},
		"a surge from before the policy, to be ended": {guarded(guard.Delete, 4), guard.Surplus},
		// Remediation deletes first.
		"unhealthy, deleted":                      {guarded(guard.Delete, 3, remediated), guard.Remediation},
		"unhealthy, its successor":                {guarded(guard.Create, 2), guard.Missing},
		"unhealthy, its successor comes too soon": {guarded(guard.Create, 3), guard.WouldSurge},
		// A person allows it.
		"annotated":                                       {guarded(guard.Delete, 3, mayGo, replaceable(1)), guard.ReplacementAllowed},
		"annotated, its successor after it":               {guarded(guard.Create, 2), guard.Missing},
		"annotated, its successor before it":              {guarded(guard.Create, 3, replaceable(1)), guard.ReplacementAllowed},
		"annotated, a second successor":                   {guarded(guard.Create, 4, replaceable(1)), guard.WouldSurge},
		"annotated, another one goes for it":              {guarded(guard.Delete, 4, replaceable(1)), guard.WouldReplace},
		"annotated, and scaled down by two":               {guarded(guard.Delete, 4, desired(2), replaceable(1)), guard.Surplus},
		"annotated, its successor is there already":       {guarded(guard.Delete, 4, mayGo, replaceable(1)), guard.ReplacementAllowed},
		"a Machine that is gone already, deleted again":   {guarded(guard.Delete, 2, machine(func(m *guard.Machine) { m.Deleting = true })), guard.AlreadyDeleting},
		"clusterctl move deletes what it has copied":      {guarded(guard.Delete, 3, machine(func(m *guard.Machine) { m.Moving = true })), guard.Moving},
		"clusterctl move makes what it copies":            {guarded(guard.Create, 1), guard.Missing},
		"the Cluster is deleted":                          {guarded(guard.Delete, 3, func(r *guard.Request) { r.ClusterGone = true }), guard.ClusterGone},
		"the group is deleted":                            {guarded(guard.Delete, 3, func(r *guard.Request) { r.Group.Deleting = true }), guard.GroupDeleting},
		"no group: alone, MachinePool, a lone MachineSet": {guarded(guard.Delete, 0, func(r *guard.Request) { r.Group = guard.Group{} }), guard.NoGroup},
		"policy falls back to replacing":                  {guarded(guard.Delete, 3, func(r *guard.Request) { r.Guarded = false }), guard.NotGuarded},
	} {
		t.Run(name, func(t *testing.T) {
			got := guard.Decide(test.request)
			allowed := test.want != guard.WouldReplace && test.want != guard.WouldSurge
			if got.Reason != test.want || got.Allowed != allowed || (got.Message == "") != allowed {
				t.Errorf("verdict is %+v, want %s", got, test.want)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	const doctor = " `windlass doctor` shows why Cluster API replaces "
	const keeps = "its UpdatePolicy keep keeps machines (fallback None). "
	for name, test := range map[string]struct {
		request guard.Request
		want    string
	}{
		"replace": {
			guarded(guard.Delete, 3, machine(func(m *guard.Machine) { m.Updating = true })),
			"would replace Machine m-1 of MachineDeployment default/workers, which is being updated in place: " + keeps +
				"Fix: to delete it by hand or let it be replaced, annotate the Machine with " +
				"windlass.dev/allow-replacement first; to scale down, lower spec.replicas (now 3) first. " +
				"If no person deletes it," + doctor + "it",
		},
		"replace another": {
			guarded(guard.Delete, 4, replaceable(1)),
			"would replace Machine m-1 of MachineDeployment default/workers: " + keeps +
				"There are 4 machines for spec.replicas 3 because 1 of them may be replaced (annotation windlass.dev/allow-replacement), and this Machine is not one " +
				"of them. Fix: annotate those with cluster.x-k8s.io/delete-machine too, so that Cluster API chooses them",
		},
		"surge of a MachineDeployment": {
			guarded(guard.Create, 3),
			"would create a machine beyond spec.replicas 3 of MachineDeployment default/workers, and so replace one: " + keeps +
				"Fix: for updates in place, set maxSurge 0 and maxUnavailable 1 (spec.rollout.strategy.rollingUpdate); to let a Machine be replaced, annotate it " +
				"with windlass.dev/allow-replacement; to scale up, raise spec.replicas." + doctor + "machines",
		},
		"surge of a control plane": {
			guarded(guard.Create, 3, func(r *guard.Request) { r.Group.Kind, r.Group.Name = "KubeadmControlPlane", "default/cp" }),
			"would create a machine beyond spec.replicas 3 of KubeadmControlPlane default/cp, and so replace one: " + keeps +
				"Fix: for updates in place, set maxSurge 0 (spec.rollout.strategy.rollingUpdate, from 3 replicas on); to let a Machine be replaced, annotate it " +
				"with windlass.dev/allow-replacement; to scale up, raise spec.replicas." + doctor + "machines",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, guard.Decide(test.request).Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainUnasked(t *testing.T) {
	refused := guard.Decide(guarded(guard.Delete, 3))
	want := refused
	want.Message += ". No hook allowed this rollout in place under UpdatePolicy keep. " +
		"If stock Cluster API drives the Cluster and the policy is newer than the rollout, change " +
		"the template again or restart capi-controller-manager, so that it calls the hooks; " +
		"windlass manager needs no restart"
	if diff := cmp.Diff(want, guard.ExplainUnasked(refused, "keep")); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	allowed := guard.Decide(guarded(guard.Delete, 4))
	if diff := cmp.Diff(allowed, guard.ExplainUnasked(allowed, "keep")); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", diff)
	}
}

// facts are the switches of a request, in the order in which they count, and the reason that each gives.
var facts = []struct {
	reason     guard.Reason
	deleteOnly bool
	set        func(*guard.Request)
}{
	{guard.NotGuarded, false, func(r *guard.Request) { r.Guarded = false }},
	{guard.ClusterGone, false, func(r *guard.Request) { r.ClusterGone = true }},
	{guard.NoGroup, false, func(r *guard.Request) { r.Group.Kind = "" }},
	{guard.GroupDeleting, false, func(r *guard.Request) { r.Group.Deleting = true }},
	{guard.AlreadyDeleting, true, func(r *guard.Request) { r.Machine.Deleting = true }},
	{guard.Moving, true, func(r *guard.Request) { r.Machine.Moving = true }},
	{guard.Remediation, true, func(r *guard.Request) { r.Machine.Remediating = true }},
	{guard.ReplacementAllowed, true, func(r *guard.Request) { r.Machine.Replaceable = true }},
	{"", false, func(r *guard.Request) { r.Machine.Updating = true }},
}

// TestEveryCombination decides all requests there are, for small groups.
func TestEveryCombination(t *testing.T) {
	for bits := range 1 << len(facts) {
		for counts := range 5 * 5 * 3 {
			for _, operation := range []guard.Operation{guard.Create, guard.Delete} {
				want := guard.Reason("")
				r := guarded(operation, counts%5, desired(counts/5%5), replaceable(counts/25))
				for i, fact := range facts {
					if bits>>i&1 == 0 {
						continue
					}
					fact.set(&r)
					if want == "" && (operation == guard.Delete || !fact.deleteOnly) {
						want = fact.reason
					}
				}
				check(t, r, want)
			}
		}
	}
}

func check(t *testing.T, r guard.Request, want guard.Reason) {
	t.Helper()
	got := guard.Decide(r)
	if alone, ok := guard.DecideAlone(r.Operation, r.Machine); ok && !got.Allowed || ok && !alone.Allowed {
		t.Fatalf("%+v: refused, though the Machine alone allows it", r)
	}
	if want != "" {
		if !got.Allowed || got.Reason != want || got.Message != "" {
			t.Fatalf("%+v: %+v, want %s", r, got, want)
		}
		return
	}
	room := r.Group.Desired + r.Group.Replaceable - r.Group.Machines
	allowed := room > 0
	if r.Operation == guard.Delete {
		allowed = room < 0
	}
	if got.Allowed != allowed {
		t.Fatalf("%+v: %+v, want allowed %t", r, got, allowed)
	}
	for _, word := range []string{r.Policy, r.Group.Kind + " " + r.Group.Name, fmt.Sprint(r.Group.Desired), "windlass.dev/allow-replacement"} {
		if !allowed && !strings.Contains(got.Message, word) {
			t.Fatalf("%+v: the message does not say %q: %s", r, word, got.Message)
		}
	}
}

// group is a group under a controller that asks for anything, at any time.
type group struct {
	desired int
	next    int
	// machines are those that are there, by uid; true for those that may be replaced.
	machines map[int]bool
	// made and deleted count what was allowed.
	made, deleted int
}

func (g *group) request(operation guard.Operation, uid int) guard.Request {
	r := guarded(operation, len(g.machines), desired(g.desired))
	for _, may := range g.machines {
		if may {
			r.Group.Replaceable++
		}
	}
	r.Machine.Replaceable = operation == guard.Delete && g.machines[uid]
	return r
}

func (g *group) create() {
	if guard.Decide(g.request(guard.Create, 0)).Allowed {
		g.next++
		g.made++
		g.machines[g.next] = false
	}
}

func (g *group) delete(uid int) {
	if guard.Decide(g.request(guard.Delete, uid)).Allowed {
		g.deleted++
		delete(g.machines, uid)
	}
}

func anyGroup(t *rapid.T, replaceable bool) *group {
	g := &group{desired: rapid.IntRange(0, 6).Draw(t, "desired"), machines: map[int]bool{}}
	for range rapid.IntRange(0, 6).Draw(t, "machines") {
		g.next++
		g.machines[g.next] = replaceable && rapid.Bool().Draw(t, "replaceable")
	}
	return g
}

func anyRequests(t *rapid.T, g *group) {
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 12), 0, 60).Draw(t, "requests") {
		// Half of the requests create; the others delete the n-th Machine ever, if it is there.
		if _, ok := g.machines[n]; ok {
			g.delete(n)
		} else {
			g.create()
		}
	}
}

// While nobody asks for anything, no sequence of requests that are allowed replaces a Machine: it makes Machines or deletes
// some, never both; and where all are there that should be, nothing changes.
func TestNothingIsReplaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t, false)
		complete := len(g.machines) == g.desired
		anyRequests(t, g)
		if g.made > 0 && g.deleted > 0 {
			t.Fatalf("%d machines were made and %d deleted", g.made, g.deleted)
		}
		if complete && g.made+g.deleted > 0 {
			t.Fatalf("the group was complete, and %d machines were made and %d deleted", g.made, g.deleted)
		}
	})
}

// Where a person lets some Machines be replaced, those go, in whatever order the successors come; no other one does.
func TestOnlyWhatMayBeReplacedIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t, true)
		if len(g.machines) > g.desired {
			return
		}
		var kept []int
		for uid, may := range g.machines {
			if !may {
				kept = append(kept, uid)
			}
		}
		anyRequests(t, g)
		for _, uid := range kept {
			if _, ok := g.machines[uid]; !ok {
				t.Fatalf("machine %d is gone, which nobody allowed", uid)
			}
		}
		// The rest of the replacement is always possible.
		for uid, may := range g.machines {
			if may {
				g.delete(uid)
			}
		}
		for range g.desired {
			g.create()
		}
		if len(g.machines) != g.desired {
			t.Fatalf("there are %d machines in the end, want %d", len(g.machines), g.desired)
		}
	})
}
