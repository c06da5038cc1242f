package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	formTime  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	formFrom  = version.MustParse("v1.35.4")
	formTo    = version.MustParse("v1.36.3")
	formSteps = []inplace.Step{{
		Updater: "kubelet", SetsVersion: true, NeedsDrain: true, Asks: true, MaxMinors: 1,
	}}
	formDirty   = []cover.Pointer{{Part: cover.PartInfrastructure, Path: "/spec/image"}}
	formDone    = []inplace.Finished{{Updater: "files", Attempts: 2, Seconds: 90}}
	formVersion = cmpopts.EquateComparable(version.Version{}, version.Minor{})
)

func formProgress() *inplace.Progress {
	return &inplace.Progress{
		ID: "u1", Decision: "d1", Target: "md-0-b", Policy: "keep", Fingerprint: "f1",
		From: formFrom, To: formTo,
		Within: &inplace.Within{Oldest: formFrom.Minor(), Newest: formTo.Minor()},
		Steps:  formSteps, Done: formDone, Phase: inplace.BackingOff,
		Attempt: 1, Operations: 3, Operation: "u1-3",
		Began: formTime, StepBegan: formTime.Add(time.Minute), Started: formTime.Add(time.Hour),
		Retried:   new(formTime.Add(30 * time.Minute)),
		NotBefore: new(formTime.Add(2 * time.Hour)), Verified: new(formTime.Add(3 * time.Hour)),
		LastError: "it failed", Unanswered: true, Unended: true, Drained: true, CanBegin: "u1-3",
		Cordoned: true, Dirty: formDirty,
	}
}

// annotationForm is the form of an annotation that Patch.set writes and readAnnotation reads.
func annotationForm[T any](name, key string, value T) formtest.Form[T] {
	return formtest.Form[T]{
		Name: name, Value: value,
		Write: func(value T, before string) (string, error) {
			p := Patch{}
			err := p.set(map[string]string{key: before}, key, value)
			return *p[key], err
		},
		Read: func(text string) (T, error) {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: text}}}
			read, err := readAnnotation[T](m, key)
			if err != nil {
				return value, err
			}
			return *read, nil
		},
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	progress := annotationForm("update-progress", v1alpha1.UpdateProgressAnnotation, *formProgress())
	progress.Enums = []string{"phase", "object"}
	progress.Test(t, formVersion)
	handedOver := annotationForm("handed-over", v1alpha1.HandedOverAnnotation, pool.HandedOver{
		Operation: "op1", Decision: "d1", Updater: "u", State: pool.HandOverAccepted,
		Budget: pool.HandOverBudget{AtOnce: 2, First: 1, Stay: 3},
	})
	handedOver.Enums, handedOver.Refuses = []string{"state"}, true
	handedOver.Read = func(text string) (pool.HandedOver, error) {
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.HandedOverAnnotation: text}}}
		h, err := pool.HandedOverOf(set)
		if err != nil {
			return pool.HandedOver{}, err
		}
		return *h, nil
	}
	handedOver.Test(t)
	failedCanaries := annotationForm("failed-canaries", v1alpha1.FailedCanariesAnnotation,
		pool.FailedCanaries{MachineSet: "md-0-b", Machines: []string{"m1"}, Others: 3, Retried: true})
	failedCanaries.Read = func(text string) (pool.FailedCanaries, error) {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{v1alpha1.FailedCanariesAnnotation: text},
		}}
		c, err := pool.FailedCanariesOf(md)
		if err != nil {
			return pool.FailedCanaries{}, err
		}
		return *c, nil
	}
	failedCanaries.Test(t)
	annotationForm("update-plan", v1alpha1.UpdatePlanAnnotation, []string{"files", "kubelet"}).Test(t)
	decisions := annotationForm("update-decisions", v1alpha1.UpdateDecisionsAnnotation, []inplace.Decision{{
		ID: "d1", Target: "md-0-b", Steps: formSteps,
		CurrentDigest: "c1", DesiredDigest: "e1", Fingerprint: "f1",
		Changes: []cover.Change{{Part: cover.PartMachine, Path: "/spec/version", Digest: "g1"}},
		Dirty:   formDirty, Decided: formTime,
	}})
	decisions.Enums = []string{"object"}
	decisions.Test(t, formVersion)
	annotationForm("last-update", v1alpha1.LastUpdateAnnotation, inplace.Summary{
		ID: "u1", Decision: "d1", Target: "md-0-b", From: formFrom, To: formTo, Done: formDone,
		Began: formTime, Ended: formTime.Add(time.Hour),
	}).Test(t, formVersion)
	annotationForm("update-owed", v1alpha1.UpdateOwedAnnotation,
		inplace.Owed{Steps: formSteps, Dirty: formDirty}).Test(t)
	dirty := annotationForm("dirty-fields", v1alpha1.DirtyFieldsAnnotation,
		[]DirtyField{{Pointer: formDirty[0], Since: formTime}})
	dirty.Enums = []string{"object"}
	dirty.Test(t)
}

// upgradeForm is the form of the record of an upgrade that an annotation asks for.
func upgradeForm[R request.Upgrade | request.Record](name string, value R) formtest.Form[R] {
	const key = v1alpha1.InPlaceUpgradeAnnotation
	return formtest.Form[R]{
		Name: name, Value: value, Enums: []string{"reason"},
		Write: func(value R, before string) (string, error) {
			keys := NewKeys(v1alpha1.DefaultInPlaceUpgradePrefix)
			after := request.Recorded[R]{Record: &value}
			p, err := difference(keys, map[string]string{key: before}, request.Recorded[R]{}, after)
			return *p[key], err
		},
		Read: func(text string) (R, error) {
			read, unreadable := readRecord[R](map[string]string{key: text})
			if unreadable != "" {
				return value, fmt.Errorf("it cannot be read: %s", unreadable)
			}
			return *read, nil
		},
	}
}

func TestUpgradeForms(t *testing.T) {
	t.Parallel()
	machine := upgradeForm("in-place-upgrade-machine", request.Upgrade{
		Option: "version=v1.36.3", Progress: formProgress(), Reason: request.ReasonSkew,
		Message: "too far", At: formTime, Cordoned: true, Protected: true, Cancelled: true,
	})
	machine.Enums = append(machine.Enums, "phase")
	machine.Test(t, formVersion)
	record := request.Record{
		Option: "version=v1.36.3", Superseded: []string{"version=v1.36.2"}, Began: formTime,
		Reason: request.ReasonFailed, Message: "Machine a: it failed", Refused: true,
		Remediated: "a", RetryAsked: new(formTime.Add(time.Hour)),
		Ended: new(formTime.Add(2 * time.Hour)), Version: formTo, Spec: formFrom,
	}
	before := record
	record.Previous = &before
	upgradeForm("in-place-upgrade-group", record).Test(t, formVersion)
}

func TestLockForm(t *testing.T) {
	t.Parallel()
	key := keyOf(types.NamespacedName{Namespace: "ns", Name: "c"})
	formtest.Form[information]{
		Name: "in-place-upgrade-lock", Once: true,
		Value: information{MachineName: "a", MachineNamespace: "ns"},
		Write: func(value information, _ string) (string, error) {
			c := newClient(t, "")
			if err := newControlPlaneLocks(c, c).Take(t.Context(), cluster, value.MachineName); err != nil {
				return "", err
			}
			object := lockMap("")
			err := c.Get(t.Context(), key, object)
			return object.Data[v1alpha1.InPlaceUpgradeLockKey], err
		},
		Read: func(text string) (information, error) {
			c := newClient(t, text)
			_, read, err := newControlPlaneLocks(c, c).read(t.Context(), key)
			return read, err
		},
	}.Test(t)
}

func TestKubeletNoteForm(t *testing.T) {
	t.Parallel()
	const release, key = "version=v1.36.3", v1alpha1.InPlaceUpgradeKubeletAnnotation
	note := kubeletNote{kubelet: formTo, unchanged: true}
	formtest.Text(t, "in-place-upgrade-kubelet", *note.patch(release)[key], func(text string) error {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: text}}}
		if read, noted := readKubeletNote(m, release); !noted || read != note {
			return fmt.Errorf("it is read as %+v, %t", read, noted)
		}
		return nil
	})
}

const laterField = `"laterRelease":{"adds":1}`

// addLaterField adds a field to a record on machine a, and returns the record.
func (w *world) addLaterField(key string) string {
	w.Helper()
	text := w.machine("a").Annotations[key]
	later := strings.Replace(text, "{", "{"+laterField+",", 1)
	w.annotate("a", key, &later)
	return later
}

// TestLaterFieldsOnMachine: what a later release has added to the progress is there while an update
// of this one goes on, and goes with the update.
func TestLaterFieldsOnMachine(t *testing.T) {
	t.Parallel()
	w, files, kubelet := halves(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain = true }))
	if err := w.decideHalves(); err != nil {
		t.Fatal(err)
	}
	w.nodes.Block(inCluster, "a", "web")
	w.until("a", "disruption budget")
	later := w.addLaterField(v1alpha1.UpdateProgressAnnotation)
	w.nodes.Block(inCluster, "a", "")
	w.until("a", "node drained")
	after := w.machine("a").Annotations[v1alpha1.UpdateProgressAnnotation]
	if after == later || !strings.Contains(after, laterField) {
		t.Errorf("it was not written, or a later release's field is lost:\n%s\n%s", later, after)
	}
	w.until("a", "updated in place")
	w.checkHalves(t, files, kubelet)
	if left := fmt.Sprint(w.machine("a").Annotations); strings.Contains(left, laterField) {
		t.Errorf("the field outlives the update: %s", left)
	}
}

// TestLaterRecordWaits: an upgrade of which a later release has recorded something that this one
// does not know waits, and nothing is done on the machine. It continues when that is known.
func TestLaterRecordWaits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]*strings.Replacer{
		"a phase":   strings.NewReplacer(`"phase":"Draining"`, `"phase":"Dreaming"`),
		"an option": strings.NewReplacer(`"option":"version=`, `"option":"image=`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			w.register()
			w.add(newMachine("cp-0", "kcp"), newMachine("a", ""))
			w.nodes.Edit(inCluster, "cp-0", func(n *inplace.Node) { n.Kubelet = inplaceVersion(wanted) })
			w.sync()
			w.nodes.SetDrain(inCluster, "a", 2)
			w.ask("a", toVersion)
			w.step() // It is admitted.
			w.step()
			known := w.machine("a").Annotations[v1alpha1.InPlaceUpgradeAnnotation]
			later := strings.Replace(change.Replace(known), "{", "{"+laterField+",", 1)
			w.annotate(w.machine("a"), map[string]any{v1alpha1.InPlaceUpgradeAnnotation: later})
			for range 3 {
				w.step()
			}
			m := w.machine("a")
			c := conditionOf(m.Status.Conditions)
			waits := c != nil && c.Reason == string(request.ReasonUnknownRecord)
			if !waits || !strings.Contains(c.Message, "Fix: upgrade Windlass") {
				t.Errorf("the condition is %+v", c)
			}
			diff := cmp.Diff(later, m.Annotations[v1alpha1.InPlaceUpgradeAnnotation])
			if diff != "" || m.Annotations[keys.Status] != "in-progress" {
				t.Errorf("the record has changed, or the status, in %v:\n%s", m.Annotations, diff)
			}
			if n := len(w.updaters["kubelet"].requests); n > 0 {
				t.Errorf("the updater was asked %d times", n)
			}
			known = strings.Replace(known, "{", "{"+laterField+",", 1)
			w.annotate(m, map[string]any{v1alpha1.InPlaceUpgradeAnnotation: known})
			for range 2 {
				w.step()
			}
			after := w.machine("a").Annotations[v1alpha1.InPlaceUpgradeAnnotation]
			if after == known || !strings.Contains(after, laterField) {
				t.Errorf("it was not written, or a later release's field is lost:\n%s\n%s", known, after)
			}
			w.untilDone("a", toVersion)
		})
	}
}
