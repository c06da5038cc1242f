package request_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// failedBefore is a record of an upgrade that has failed finally.
func failedBefore(edit func(*inplace.Progress)) *request.Upgrade {
	u := &request.Upgrade{Option: "version=v1.31.3", Progress: &inplace.Progress{
		ID: "u0", Phase: inplace.Failed, Steps: []inplace.Step{{Updater: "u"}}, Operation: "u0-1", LastError: "no",
	}}
	if edit != nil {
		edit(u.Progress)
	}
	return u
}

// started is what TestStart looks at of an upgrade that has begun.
type started struct {
	// There says that the upgrade ends at once, because nothing has to be done.
	There bool
	// Drains says that the node is drained for its steps.
	Drains                             bool
	ChangeID                           string
	Cordoned, Drained, Unended, Failed bool
}

// TestStart takes over what another controller or an earlier upgrade has begun, and does nothing twice.
func TestStart(t *testing.T) {
	t.Parallel()
	marks := func(status request.Status, change string) func(*request.Machine) {
		return func(f *request.Machine) { f.Marks.Status, f.Marks.ChangeID = status, change }
	}
	there := func(edit func(*request.Machine)) func(*request.Machine) {
		return func(f *request.Machine) {
			f.Node.Kubelet = at("v1.31.2")
			edit(f)
		}
	}
	after := func(u *request.Upgrade) func(*request.Machine) {
		return func(f *request.Machine) { f.Upgrade = u }
	}
	for name, tt := range map[string]struct {
		edit func(*request.Machine)
		want started
	}{
		"the first":                    {marks("", ""), started{Drains: true}},
		"begun by another":             {marks(request.InProgress, "7"), started{ChangeID: "7"}},
		"ended by another":             {marks(request.Done, "7"), started{ChangeID: "7"}},
		"failed by another":            {marks(request.Failed, "7"), started{Drains: true}},
		"in progress without a change": {marks(request.InProgress, ""), started{Drains: true}},
		"a change without a status":    {marks("", "7"), started{Drains: true}},
		"a change beside our record":   {func(f *request.Machine) { marks(request.InProgress, "7")(f); f.Upgrade = failedBefore(nil) }, started{Drains: true}},
		"there":                        {there(marks("", "")), started{There: true}},
		"there, begun by another":      {there(marks(request.InProgress, "7")), started{ChangeID: "7"}},
		"there, not asked":             {there(func(f *request.Machine) { f.Node.Unknown = "away" }), started{Drains: true}},
		"there, and gone":              {there(func(f *request.Machine) { f.Node.Exists = false }), started{Drains: true}},
		"there, by revision":           {there(func(f *request.Machine) { f.Marks.To = "revision=7" }), started{Drains: true}},
		"there, after one that failed": {there(after(failedBefore(nil))), started{There: true}},
		"there, one may still run":     {there(after(failedBefore(func(p *inplace.Progress) { p.Unended = true }))), started{Drains: true, Unended: true}},
		"after one that was refused":   {after(&request.Upgrade{Option: "x", Message: "no"}), started{Drains: true}},
		"refused, and the node away":   {after(&request.Upgrade{Option: "x", Message: "no", Cordoned: true}), started{Drains: true, Cordoned: true}},
		"after one that has drained":   {after(failedBefore(func(p *inplace.Progress) { p.Drained, p.Cordoned = true, true })), started{Drains: true, Cordoned: true, Drained: true}},
		"drained, and noted as such": {func(f *request.Machine) {
			f.Upgrade = failedBefore(func(p *inplace.Progress) { p.Drained = true })
			f.Upgrade.Cordoned = true
		}, started{Drains: true, Drained: true}},
		"a kubelet that is beyond": {func(f *request.Machine) { f.Marks.To, f.Node.Kubelet = "channel=1.31/stable", at("v1.32.0") }, started{Failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := well()
			f.Marks.LastFailed, f.Retry = "before", true
			tt.edit(&f)
			plan := request.Plan{Steps: []inplace.Step{{Updater: "u", SetsVersion: true}}}
			if tt.want.Failed {
				plan = request.Plan{}
			}
			v := request.Planned(f, plan)
			got := started{There: v.Event.Kind == request.Ended, ChangeID: v.After.Marks.ChangeID, Failed: v.Event.Kind == request.FailedFinally}
			if u := v.After.Record; u != nil {
				p := u.Progress
				got.Drains = len(p.Steps) > 0 && p.Steps[0].NeedsDrain
				got.Cordoned, got.Drained, got.Unended = p.Cordoned, p.Drained, p.Unended
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if begun := !got.There && !got.Failed; begun != (v.Event.Kind == request.Started) || begun && v.After.Marks.LastFailed != "" || v.After.Retry {
				t.Errorf("event %v, %+v, retry %v", v.Event, v.After.Marks, v.After.Retry)
			}
			if _, runs := v.Action.(request.Run); runs == got.There {
				t.Errorf("%T", v.Action)
			}
		})
	}
}

// TestMaxMinors refuses an updater that would have to go farther than it can.
func TestMaxMinors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to      string
		limit   int
		edit    func(*request.Machine)
		refused bool
	}{
		"no limit":             {to: "version=v1.33.0"},
		"as far as it goes":    {to: "version=v1.33.0", limit: 2},
		"too far":              {to: "version=v1.33.0", limit: 1, refused: true},
		"no version":           {to: "revision=7", limit: 1},
		"back":                 {to: "version=v1.30.0", limit: 1},
		"the kubelet counts":   {to: "version=v1.33.0", limit: 1, edit: func(f *request.Machine) { f.Node.Kubelet = at("v1.32.0") }},
		"the spec, if unknown": {to: "version=v1.33.0", limit: 1, edit: func(f *request.Machine) { f.Node.Kubelet, f.Node.Unknown = at("v1.32.0"), "away" }, refused: true},
		"the spec, if gone":    {to: "version=v1.33.0", limit: 1, edit: func(f *request.Machine) { f.Node.Kubelet, f.Node.Exists = at("v1.32.0"), false }, refused: true},
	} {
		f := well()
		f.Marks.To = tt.to
		if tt.edit != nil {
			tt.edit(&f)
		}
		v := request.Planned(f, request.Plan{Steps: []inplace.Step{{Updater: "u", SetsVersion: true, MaxMinors: tt.limit}}})
		if refused := v.State.Reason == request.ReasonNoUpdater; refused != tt.refused || refused != v.After.Record.IsFinal() {
			t.Errorf("%s: %+v", name, v.State)
		}
	}
}
