package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
)

// chooser is a scripted updater that chooses an order.
type chooser struct {
	*scripted
	choice port.Choice
	err    error
	asked  []port.Candidates
}

func (c *chooser) Choose(_ context.Context, asked port.Candidates) (port.Choice, error) {
	c.asked = append(c.asked, asked)
	return c.choice, c.err
}

// choosing is moving with an updater that chooses an order.
func choosing(t *testing.T, policy v1alpha1.UpdatePolicySpec) (*world, *chooser) {
	t.Helper()
	w, s := moving(t, policy)
	c := &chooser{scripted: s}
	w.engine.Open = func(context.Context, *v1alpha1.Updater) (port.Updater, error) { return c, nil }
	return w, c
}

func machineKeys(names ...string) []types.NamespacedName {
	var found []types.NamespacedName
	for _, name := range names {
		found = append(found, clientKey(name))
	}
	return found
}

// TestUpdaterChoosesTheOrder holds that a machine begins only when it is chosen, before it takes a slot.
func TestUpdaterChoosesTheOrder(t *testing.T) {
	t.Parallel()
	w, c := choosing(t, external(nil))
	c.choice.Machines = machineKeys("b")
	reply, err := w.update("a")
	if err != nil || !strings.Contains(reply.Message, `not started: updater "kubelet" chooses others first`) || w.progress("a") != nil {
		t.Errorf("a is not chosen: reply %+v, error %v, progress %+v", reply, err, w.progress("a"))
	}
	want := port.Candidates{Cluster: clientKey("c"), Machines: machineKeys("a", "b"), Free: 1, Deadline: w.now.Add(10 * time.Minute)}
	if diff := cmp.Diff([]port.Candidates{want}, c.asked); diff != "" {
		t.Errorf("the updater was asked (-want +got)\n%s", diff)
	}
	if _, err := w.update("b"); err != nil || w.progress("b") == nil {
		t.Errorf("b is chosen: error %v, progress %+v", err, w.progress("b"))
	}
	w.node("b", to)
	if reply, err := w.update("b"); err != nil || !reply.Done {
		t.Errorf("b ends: reply %+v, error %v", reply, err)
	}
	c.choice = port.Choice{Reason: "night"}
	reply, err = w.update("a")
	if err != nil || !strings.Contains(reply.Message, `lets no machine begin: night`) || w.progress("a") != nil {
		t.Errorf("nobody is chosen: reply %+v, error %v", reply, err)
	}
	if diff := cmp.Diff(machineKeys("a"), c.asked[len(c.asked)-1].Machines); diff != "" {
		t.Errorf("b has ended, and is a candidate (-want +got)\n%s", diff)
	}
	c.choice = port.Choice{Machines: machineKeys("a")}
	if _, err := w.update("a"); err != nil || w.progress("a") == nil {
		t.Errorf("a is chosen: error %v, progress %+v", err, w.progress("a"))
	}
}

// TestTimeToChooseIsBounded holds that an updater which chooses nobody, or cannot be asked, holds a
// group for no longer than an attempt may take.
func TestTimeToChooseIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]chooser{
		"chooses nobody": {choice: port.Choice{Reason: "night"}}, "cannot be asked": {err: errors.New("no answer")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, asked := choosing(t, external(nil))
			asked.choice, asked.err = c.choice, c.err
			m := w.machine("a")
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineInPlaceUpdatingReason,
				LastTransitionTime: metav1.NewTime(w.now),
			}}
			w.must(w.client.Status().Update(t.Context(), m))
			w.now = w.now.Add(10 * time.Minute)
			if reply, err := w.update("a"); err != nil || w.progress("a") != nil || !strings.HasPrefix(reply.Message, "not started") {
				t.Errorf("in time: reply %+v, error %v", reply, err)
			}
			w.now = w.now.Add(time.Second)
			if _, err := w.update("a"); err != nil || w.progress("a") == nil {
				t.Errorf("too late: error %v, progress %+v", err, w.progress("a"))
			}
		})
	}
}

func TestMemberOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const last = `{"id":"i","target":"new","began":"2026-01-02T03:00:00Z","ended":"2026-01-02T03:04:05Z"}`
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        groupMember
	}{
		"not marked":   {map[string]string{}, groupMember{}},
		"marked":       {map[string]string{clusterv1.UpdateInProgressAnnotation: ""}, groupMember{waits: true}},
		"not moved":    {map[string]string{clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: ""}, groupMember{}},
		"updating":     {map[string]string{clusterv1.UpdateInProgressAnnotation: "", v1alpha1.UpdateProgressAnnotation: `{"phase":"Updating"}`}, groupMember{updating: true}},
		"failed":       {map[string]string{clusterv1.UpdateInProgressAnnotation: "", v1alpha1.UpdateProgressAnnotation: `{"phase":"Failed"}`}, groupMember{}},
		"unreadable":   {map[string]string{clusterv1.UpdateInProgressAnnotation: "", v1alpha1.UpdateProgressAnnotation: `[`}, groupMember{updating: true}},
		"ended":        {map[string]string{clusterv1.UpdateInProgressAnnotation: "", v1alpha1.LastUpdateAnnotation: last}, groupMember{ended: at}},
		"ended before": {map[string]string{clusterv1.UpdateInProgressAnnotation: "", v1alpha1.LastUpdateAnnotation: strings.Replace(last, "new", "old", 1)}, groupMember{waits: true, ended: at}},
	} {
		m := machine("a", "new", to)
		m.Annotations = tt.annotations
		tt.want.name = clientKey("a")
		if diff := cmp.Diff(tt.want, memberOf(m), cmp.AllowUnexported(groupMember{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestChooseBy(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		members []groupMember
		want    time.Time
	}{
		"nobody else":        {nil, at.Add(time.Hour)},
		"one is updated":     {[]groupMember{{ended: at}, {updating: true}}, time.Time{}},
		"one ended later":    {[]groupMember{{ended: at.Add(time.Minute)}}, at.Add(time.Hour + time.Minute)},
		"one ended earlier":  {[]groupMember{{ended: at.Add(-time.Minute)}}, at.Add(time.Hour)},
		"another one waits":  {[]groupMember{{waits: true}}, at.Add(time.Hour)},
		"the latest of many": {[]groupMember{{ended: at.Add(2 * time.Minute)}, {ended: at.Add(time.Minute)}}, at.Add(time.Hour + 2*time.Minute)},
	} {
		if got := chooseBy(tt.members, at, time.Hour); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestAttemptsHaveADeadline holds that an updater is told when its attempt is over, and then that it must end.
func TestAttemptsHaveADeadline(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	deadline := w.now.Add(10 * time.Minute).Format(time.RFC3339)
	for _, later := range []time.Duration{0, 10 * time.Minute, time.Second} {
		w.now = w.now.Add(later)
		if _, err := w.update("a"); err != nil {
			t.Fatal(err)
		}
	}
	var cancels []string
	for i := range s.told {
		annotations := s.told[i].Machine.Annotations
		if annotations[v1alpha1.DeadlineAnnotation] != deadline {
			t.Errorf("call %d: the deadline is %q, want %q", i, annotations[v1alpha1.DeadlineAnnotation], deadline)
		}
		cancels = append(cancels, annotations[v1alpha1.CancelAnnotation])
	}
	if diff := cmp.Diff([]string{"", "", "there was no result after 10m0s"}, cancels); diff != "" {
		t.Errorf("the reasons to cancel (-want +got)\n%s", diff)
	}
}
