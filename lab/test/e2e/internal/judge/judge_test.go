package judge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/test/e2e/internal/judge"
)

const stepsExpired = "steps that are done and whose Events have expired: Cluster API does not record steps"

func TestFaithful(t *testing.T) {
	t.Parallel()
	for _, f := range judged(t, func(int, *status) {}) {
		t.Errorf("a true status is a fault: %s", f)
	}
}

// TestMutants has statuses as a wrong model of progress would make them. The judge finds each.
func TestMutants(t *testing.T) {
	t.Parallel()
	in := func(from, to int, change func(*status)) func(int, *status) {
		return func(second int, s *status) {
			if second >= from && second < to {
				change(s)
			}
		}
	}
	done := func(operation, to string) func(*status) {
		return func(s *status) { s.Upgrade.Steps = append(s.Upgrade.Steps, step{"Done", operation, to}) }
	}
	of := func(name string, change func(*shown)) func(*status) {
		return func(s *status) {
			for i := range s.Machines {
				if s.Machines[i].Name == name {
					change(&s.Machines[i])
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		change func(int, *status)
		want   []judge.Question
	}{
		"a step is done that never ran": {
			in(11, 140, done("WorkersUpgrade", v33)), []judge.Question{{Kind: judge.Done, About: "workers " + v33}},
		},
		"a step is done before its machines": {
			in(11, 30, done("ControlPlaneUpgrade", v32)), []judge.Question{{Kind: judge.Done, About: "control plane " + v32}},
		},
		"a step is done while a machine soaks": {
			in(76, 90, done("WorkersUpgrade", v32)), []judge.Question{{Kind: judge.Done, About: "workers " + v32}},
		},
		"a step that is done is missing": {
			in(31, 60, func(s *status) { s.Upgrade.Steps = nil }),
			[]judge.Question{{Kind: judge.Done, About: "control plane " + v32}},
		},
		"it says that steps are missing": {
			in(31, 60, func(s *status) {
				s.Upgrade.Steps, s.Upgrade.NotKnown = nil, []string{stepsExpired}
			}), nil,
		},
		"it says that steps are missing, and one is wrong": {
			in(31, 60, func(s *status) {
				s.Upgrade.NotKnown = []string{stepsExpired}
				done("WorkersUpgrade", v32)(s)
			}), []judge.Question{{Kind: judge.Done, About: "workers " + v32}},
		},
		"machines are counted against the template": {
			in(11, 30, func(s *status) { s.Upgrade.AtTarget = 3 }), []judge.Question{{Kind: judge.AtTarget}},
		},
		"a failed machine is counted as updated": {
			in(106, 120, func(s *status) { s.Upgrade.AtTarget = 3 }), []judge.Question{{Kind: judge.AtTarget}},
		},
		"a failed machine is shown as updated": {
			in(106, 120, of("w-1", func(m *shown) { m.State = "UpToDate" })),
			[]judge.Question{
				{Kind: judge.HeldBy, About: "machine w-1"}, {Kind: judge.MustAct, About: "who retries w-1"},
			},
		},
		"a gate that holds is not shown": {
			in(41, 60, func(s *status) { s.Upgrade.HeldBy = s.Upgrade.HeldBy[:1] }),
			[]judge.Question{
				{Kind: judge.HeldBy, About: "gate board"}, {Kind: judge.MustAct, About: "who approves at board"},
			},
		},
		"a gate is shown that holds no longer": {
			in(61, 90, func(s *status) {
				s.Upgrade.HeldBy = []hold{{Kind: "UpgradeGate", By: "board", Message: "it was approved"}}
			}),
			[]judge.Question{{Kind: judge.HeldBy, About: "gate board"}},
		},
		"a hold began at another time": {
			in(41, 60, func(s *status) { s.Upgrade.HeldBy[1].Since = at(10) }),
			[]judge.Question{{Kind: judge.HeldBy, About: "gate board"}},
		},
		"no upgrade is under way while machines move": {
			in(76, 120, func(s *status) { s.Upgrade.State = "UpToDate" }), []judge.Question{{Kind: judge.UnderWay}},
		},
		"an upgrade that is over is under way": {
			in(146, 160, func(s *status) { s.Upgrade.State = "Upgrading" }), []judge.Question{{Kind: judge.UnderWay}},
		},
		"a machine's version is what it is asked for": {
			in(61, 75, of("w-0", func(m *shown) { m.Runs = v32 })), []judge.Question{{Kind: judge.Runs, About: "w-0"}},
		},
		"a machine that is created rests": {
			in(11, 30, of("cp-1", func(m *shown) { m.Motion = "" })), []judge.Question{{Kind: judge.Moves, About: "cp-1"}},
		},
		"a machine is not shown": {
			in(41, 160, func(s *status) { s.Machines = s.Machines[1:] }),
			[]judge.Question{{Kind: judge.Runs, About: "w-0"}, {Kind: judge.Moves, About: "w-0"}},
		},
		"a manager that was seen long ago": {
			in(105, 106+1, func(s *status) { s.Upgrade.EngineSeen = at(80) }), []judge.Question{{Kind: judge.Seen}},
		},
		"a manager that runs is silent": {
			in(61, 75, func(s *status) { s.Silent = at(50) }), []judge.Question{{Kind: judge.MustAct, About: "the controller"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []judge.Question
			for _, f := range judged(t, tt.change) {
				if !slices.Contains(got, f.Question) {
					got = append(got, f.Question)
				}
			}
			order := func(a, b judge.Question) int { return strings.Compare(a.String(), b.String()) }
			slices.SortFunc(got, order)
			slices.SortFunc(tt.want, order)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("questions with faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeadManager: a manager that has not renewed its lease for its duration and a minute is dead.
// In between it may be.
func TestDeadManager(t *testing.T) {
	t.Parallel()
	const alive = 20
	seen := func(second int, s *status) { s.Upgrade.EngineSeen = at(min(second-1, alive-1)) }
	for name, tt := range map[string]struct {
		shownFrom int
		want      int
	}{
		"shown in time":             {90, 0},
		"shown when its lease ends": {60, 0},
		"shown too early":           {20, 1},
		"never shown":               {storySeconds + 1, 1},
	} {
		faults := judgedAlive(t, alive, func(second int, s *status) {
			seen(second, s)
			if second > tt.shownFrom {
				s.Silent = at(alive - 1)
			}
		})
		if len(faults) != tt.want {
			t.Errorf("%s: %d faults, want %d: %v", name, len(faults), tt.want, faults)
		}
	}
}

// TestLag: an answer may be Lag seconds old, and not older.
func TestLag(t *testing.T) {
	t.Parallel()
	q := judge.Question{Kind: judge.Runs, About: "m"}
	moment := func(second int, text string) judge.Moment {
		return judge.Moment{At: at(second), Answers: judge.Answers{q: {Is: []string{text}}}}
	}
	var seconds []time.Time
	for second := range 40 {
		seconds = append(seconds, at(second))
	}
	for name, tt := range map[string]struct {
		truth, status []judge.Moment
		want          []time.Time
	}{
		"at once":      {[]judge.Moment{moment(0, "a"), moment(20, "b")}, []judge.Moment{moment(0, "a"), moment(20, "b")}, nil},
		"after 5 s":    {[]judge.Moment{moment(0, "a"), moment(20, "b")}, []judge.Moment{moment(0, "a"), moment(25, "b")}, nil},
		"after 7 s":    {[]judge.Moment{moment(0, "a"), moment(20, "b")}, []judge.Moment{moment(0, "a"), moment(27, "b")}, []time.Time{at(25)}},
		"never":        {[]judge.Moment{moment(0, "a"), moment(20, "b")}, []judge.Moment{moment(0, "a")}, []time.Time{at(25)}},
		"not briefly":  {[]judge.Moment{moment(0, "a"), moment(20, "b"), moment(23, "a")}, []judge.Moment{moment(0, "a")}, nil},
		"before it is": {[]judge.Moment{moment(0, "a"), moment(20, "b")}, []judge.Moment{moment(0, "a"), moment(15, "b")}, []time.Time{at(15)}},
		"always late": {
			[]judge.Moment{moment(0, "a"), moment(12, "b"), moment(16, "c"), moment(20, "d"), moment(24, "e")},
			[]judge.Moment{moment(0, "a"), moment(16, "b"), moment(20, "c"), moment(24, "d"), moment(28, "e")}, nil,
		},
		"two faults": {
			[]judge.Moment{moment(0, "a")},
			[]judge.Moment{moment(0, "a"), moment(10, "b"), moment(12, "a"), moment(30, "b")}, []time.Time{at(10), at(30)},
		},
	} {
		var got []time.Time
		for _, f := range judge.Compare(tt.truth, tt.status, seconds, judge.Lag) {
			got = append(got, f.From)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: faults begin (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadStatus(t *testing.T) {
	t.Parallel()
	if _, err := judge.ReadStatus([]byte("{")); err == nil {
		t.Error("a broken status is read")
	}
}
