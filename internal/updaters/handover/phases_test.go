package handover_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/handover"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	const waiting = "handed over; waiting for the mark on the Machine"
	for mark, want := range map[string]string{
		"": waiting, "op:2": waiting, "op:1: old": waiting, "op:22: other": waiting,
		"op:2: pulling\nimages": "pulling images", "op:2: step 2: kubelet": "step 2: kubelet",
	} {
		i := newImplementer(t)
		u := i.connect(t)
		ask(t, u) // The first answer says that the machine was handed over.
		i.mark(v1alpha1.UpdateMessageAnnotation, mark)
		if diff := cmp.Diff(inplace.Answer{Outcome: inplace.InProgress, Message: want, RetryAfter: 5 * time.Second}, ask(t, u)); diff != "" {
			t.Errorf("with %q (-want +got):\n%s", mark, diff)
		}
	}
}

// commanded asks for an update with further annotations of the desired Machine.
func commanded(t *testing.T, u *handover.Updater, annotations map[string]string) inplace.Answer {
	t.Helper()
	request := porttest.UpdateMachine(machine, porttest.UpdaterTo, "op:2")
	maps.Copy(request.Desired.Machine.Annotations, annotations)
	return u.UpdateMachine(t.Context(), request)
}

func TestStartHasADeadline(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	commanded(t, i.connect(t), map[string]string{v1alpha1.DeadlineAnnotation: "2026-01-02T03:04:05Z"})
	want := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if got := i.asked(); len(got) != 1 || !got[0].Deadline.Equal(&want) {
		t.Errorf("it was asked %+v", got)
	}
}

// TestFollowStartsNothing holds that an update that nobody asks for any longer is watched to its end, and not handed over.
func TestFollowStartsNothing(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	u := i.connect(t)
	follow := map[string]string{v1alpha1.InPlaceUpgradeFollowAnnotation: "true"}
	if got := commanded(t, u, follow); got.Outcome != inplace.InProgress {
		t.Errorf("before the mark the answer is %+v", got)
	}
	i.mark(v1alpha1.UpdatedAnnotation, "op:2")
	if got := commanded(t, u, follow); got.Outcome != inplace.Finishes {
		t.Errorf("after the mark the answer is %+v", got)
	}
	if asked := i.asked(); len(asked) > 0 {
		t.Errorf("it was asked %+v", asked)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cancelled := map[string]string{v1alpha1.CancelAnnotation: "too late"}
	for name, tt := range map[string]struct {
		// answer is the body of the answer; empty accepts.
		answer, failed string
		want           inplace.Answer
	}{
		"stopped": {want: inplace.Answer{Outcome: inplace.Fails, Message: "too late; the updater was told to stop, and has stopped"}},
		"does not stop": {answer: response(false, "kubeadm runs"), want: inplace.Answer{
			Outcome: inplace.InProgress, Message: "the updater does not stop: kubeadm runs", RetryAfter: 5 * time.Second,
		}},
		"has failed": {failed: "op:2: no disk", want: inplace.Answer{Outcome: inplace.Fails, Message: "no disk"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImplementer(t)
			if tt.answer != "" {
				i.says(tt.answer)
			}
			i.mark(v1alpha1.UpdateFailedAnnotation, tt.failed)
			if diff := cmp.Diff(tt.want, commanded(t, i.connect(t), cancelled)); diff != "" {
				t.Errorf("the answer (-want +got):\n%s", diff)
			}
			if got := i.asked(); tt.answer == "" && tt.failed == "" &&
				(len(got) != 1 || got[0].Phase != updatesv1.Cancel || got[0].OperationID != "op:2" || got[0].Reason != "too late" || got[0].Desired != nil) {
				t.Errorf("it was asked %+v", got)
			}
		})
	}
	i := newImplementer(t)
	i.says("nonsense")
	if got := commanded(t, i.connect(t), cancelled); got.Outcome != inplace.Unknown {
		t.Errorf("after nonsense the answer is %+v", got)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	candidates := []types.NamespacedName{{Namespace: "ns", Name: "m-0"}, {Namespace: "ns", Name: "m-1"}, {Namespace: "ns", Name: "m-2"}}
	head := `{"apiVersion":"` + updatesv1.APIVersion + `","kind":"HandOverResponse","accepted":`
	for name, tt := range map[string]struct {
		answer string
		want   port.Choice
		fails  string
	}{
		"any":           {answer: response(true, ""), want: port.Choice{Machines: candidates}},
		"none":          {answer: response(false, "night"), want: port.Choice{Reason: "night"}},
		"none, no word": {answer: response(false, ""), want: port.Choice{Reason: "it gave no reason"}},
		"two": {
			answer: head + `true,"machines":[{"namespace":"ns","name":"m-2"},{"namespace":"ns","name":"m-0"}]}`,
			want:   port.Choice{Machines: []types.NamespacedName{candidates[0], candidates[2]}},
		},
		"another": {answer: head + `true,"machines":[{"namespace":"ns","name":"m-9"}]}`, fails: "it chooses ns/m-9"},
		"no JSON": {answer: "yes", fails: "not the JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImplementer(t)
			i.says(tt.answer)
			got, err := i.connect(t).Choose(t.Context(), port.Candidates{Machines: candidates, Free: 1})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the choice (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.fails != "") || !strings.Contains(fmt.Sprint(err), tt.fails) {
				t.Errorf("the error is %v, want %q", err, tt.fails)
			}
		})
	}
	i := newImplementer(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cluster := types.NamespacedName{Namespace: "ns", Name: "c"}
	if _, err := i.connect(t).Choose(t.Context(), port.Candidates{Cluster: cluster, Machines: candidates, Free: 2, Deadline: at}); err != nil {
		t.Fatal(err)
	}
	got := i.asked()[0]
	got.Deadline = metav1.NewTime(got.Deadline.UTC())
	if diff := cmp.Diff(updatesv1.HandOverRequest{
		APIVersion: updatesv1.APIVersion, Kind: "HandOverRequest", Phase: updatesv1.Choose, Deadline: metav1.NewTime(at),
		Cluster: updatesv1.ObjectName(cluster), Machines: names("m-0", "m-1", "m-2"), Free: 2,
	}, got); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
}
