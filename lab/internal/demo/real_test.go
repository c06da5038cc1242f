package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// attempt is one that takes 100 ms and begins that many seconds after the first one.
func attempt(operation journal.Operation, number, second int, failure string) journal.Attempt {
	at := began.Add(time.Duration(second) * time.Second)
	a := journal.Attempt{Operation: operation, Number: number, Began: at, Ended: at.Add(100 * time.Millisecond), Error: failure}
	if operation == journal.Write && failure == "" {
		a.Revision = int64(100 + number)
	}
	return a
}

// realResult is of an upgrade of two control plane machines, one worker that stays, and one that is replaced.
func realResult(t *testing.T) Result {
	t.Helper()
	request := plan.Request{
		Inventory: plan.Inventory{ControlPlane: v130, Groups: []plan.Group{{Name: "batch", Version: v130}, {Name: "general", Version: v130}}}, Target: v131,
		Source: plan.Response{ControlPlane: []version.Version{v131}},
	}
	planned, err := plan.Compute(request)
	if err != nil {
		t.Fatal(err)
	}
	machine := func(group, name string, kept bool, v version.Version) RealMachine {
		return RealMachine{
			Identity: Identity{Group: group, Name: name, UID: types.UID(name + "-machine")}, Kept: kept, Node: types.UID(name + "-node"), Kubelet: v.String(),
		}
	}
	machines := func(batch string, v version.Version) []RealMachine {
		return []RealMachine{machine("", "c1", true, v), machine("", "c2", true, v), machine("batch", batch, false, v), machine("general", "w", true, v)}
	}
	member := func(name string) RealMember {
		return RealMember{APIServer: v131.String(), Member: journal.Member{
			Machine: name, Version: "3.6.6", Known: []string{"c1", "c2"},
			Stored: map[int]journal.Stored{1: {Revision: 101, Value: journal.Value(1)}, 3: {Revision: 103, Value: journal.Value(3)}},
		}}
	}
	return Result{
		Request: request, Planned: planned, Observed: planned.Operations, Duration: time.Minute, Finished: true,
		Real: &RealResult{
			Target: v131, Etcd: "3.6.6", Before: machines("b1", v130), After: machines("b2", v131), Members: []RealMember{member("c1"), member("c2")},
			Attempts: []journal.Attempt{
				attempt(journal.Write, 1, 0, ""), attempt(journal.Read, 1, 1, ""), attempt(journal.Write, 2, 2, "reset"),
				attempt(journal.Write, 3, 4, ""), attempt(journal.Read, 3, 5, ""),
			},
		},
	}
}

func TestReportReal(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Result)
		want   error
		texts  []string
	}{
		{"all is well", func(*Result) {}, nil, []string{
			"The observed operations are the planned ones.",
			"control plane  c1       c1           c1        the same",
			"batch          b1       b1           b1        replaced",
			"batch          b2       b2           b2        new",
			"3 machines kept the UIDs of their Machine and their Node",
			"c1       v1.31.0  v1.31.0     3.6.6",
			"All are at the target: Kubernetes v1.31.0 with etcd 3.6.6.",
			"Each of the 2 members of etcd, asked alone, returns all 2 acknowledged writes.",
			"writes  2          1       1        2.1 s        2.1 s    0.1 s",
			"reads   2          0       0        0.0 s        0.0 s    0.1 s",
			"00:02  writes     2.1 s   reset",
			"The upgrade took 1m0s.",
		}},
		{"another operation", func(r *Result) { r.Observed = r.Observed[:1] }, ErrDiffers, []string{"NOT the planned ones"}},
		{"another Machine", func(r *Result) { r.Real.After[0].UID = "x-1" }, ErrIdentity, []string{"CHANGED: x, c1", "NOT those that were planned"}},
		{"another Node", func(r *Result) { r.Real.After[3].Node = "x-1" }, ErrIdentity, []string{"CHANGED: w, x"}},
		{"a Node is missing", func(r *Result) { r.Real.After[3].Node = "" }, ErrIdentity, []string{"CHANGED"}},
		{"a machine is gone", func(r *Result) { r.Real.After = r.Real.After[:3] }, ErrIdentity, []string{"GONE"}},
		{"a machine of a group that stays is new", func(r *Result) { r.Real.After[2].Kept = true }, ErrIdentity, []string{"CREATED"}},
		{"a machine was not replaced", func(r *Result) { r.Real.After[2] = r.Real.Before[2] }, ErrIdentity, []string{"NOT REPLACED"}},
		{"an old kubelet", func(r *Result) { r.Real.After[3].Kubelet = v130.String() }, ErrVersions, []string{"NOT all are at the target"}},
		{"an old API server", func(r *Result) { r.Real.Members[1].APIServer = v130.String() }, ErrVersions, nil},
		{"an old etcd", func(r *Result) { r.Real.Members[1].Version = "3.5.0" }, ErrVersions, nil},
		{"a member was not asked", func(r *Result) { r.Real.Members = r.Real.Members[:1] }, ErrVersions, []string{"knows 2 members"}},
		{"a member lacks a write", func(r *Result) { delete(r.Real.Members[1].Stored, 3) }, ErrLost, []string{
			"The member of etcd on c2 does not have all acknowledged writes: 1 missing (3).",
		}},
		{"the API is still away", func(r *Result) { r.Real.Attempts = append(r.Real.Attempts, attempt(journal.Read, 3, 6, "refused")) },
			ErrUnavailable, []string{"did NOT answer when the client stopped"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := realResult(t)
			tt.change(&r)
			var text strings.Builder
			if err := ReportReal(&text, r); !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
				t.Errorf("the report gave %v, want %v", err, tt.want)
			}
			for _, want := range tt.texts {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the report does not have %q:\n%s", want, text.String())
				}
			}
		})
	}
}

func TestDefaultReal(t *testing.T) {
	s, err := DefaultReal()
	if err != nil {
		t.Fatal(err)
	}
	request, err := s.Request()
	if err != nil {
		t.Fatal(err)
	}
	planned, err := plan.Compute(request)
	if err != nil {
		t.Fatal(err)
	}
	from := version.MustParse("v1.35.4")
	want := []plan.Operation{
		{Kind: plan.ControlPlaneUpgrade, From: from, To: s.Target},
		{Kind: plan.WorkersUpgrade, Groups: []string{"general", "batch"}, From: from, To: s.Target},
	}
	if diff := cmp.Diff(want, planned.Operations, cmpopts.IgnoreFields(plan.Operation{}, "Reason")); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	for _, group := range s.Real.Replaced {
		if stages, err := s.computeStages(); err != nil || stages[0].versions[group] != from {
			t.Errorf("group %s does not exist: %v", group, err)
		}
	}
}
