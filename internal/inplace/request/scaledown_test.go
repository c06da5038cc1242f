package request_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// TestScaleDown: an upgrade that is given up, refused or replaced lets the cluster autoscaler
// remove the node again before its record goes. A node that cannot be asked keeps the record until
// it can.
func TestScaleDown(t *testing.T) {
	t.Parallel()
	const away = "no route to host"
	withdrawn := func(by inplace.ScaleDown, unknown string) request.Machine {
		return underWay(inplace.BackingOff, func(f *request.Machine, _ *request.Upgrade) {
			f.Marks.To, f.Node.ScaleDown = "", by
			if unknown != "" {
				f.Node = inplace.Node{Unknown: unknown}
			}
		})
	}
	refused := func(by inplace.ScaleDown, protected bool, to string) request.Machine {
		f := well()
		f.Upgrade = &request.Upgrade{Option: f.Marks.To, Reason: request.ReasonSkew, Protected: protected}
		f.Marks.To, f.Node.ScaleDown = to, by
		return f
	}
	wanted := well().Marks.To
	for name, tt := range map[string]struct {
		facts             request.Machine
		enables           bool
		record, protected bool
	}{
		"given up":                    {withdrawn(inplace.ScaleDownByUs, ""), true, true, false},
		"given up, and unmarked":      {withdrawn(inplace.ScaleDownAllowed, ""), false, false, false},
		"given up, marked by others":  {withdrawn(inplace.ScaleDownByOthers, ""), false, false, false},
		"given up, and away":          {withdrawn(inplace.ScaleDownByUs, away), false, true, true},
		"refused, was away":           {refused(inplace.ScaleDownByUs, true, wanted), true, true, true},
		"refused, was away, is clean": {refused(inplace.ScaleDownAllowed, true, wanted), false, true, false},
		"withdrawn, was away":         {refused(inplace.ScaleDownByUs, true, ""), true, true, true},
		"refused, did nothing":        {refused(inplace.ScaleDownByUs, false, wanted), false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := request.DecideMachine(tt.facts)
			if _, enables := v.Action.(request.EnableScaleDown); enables != tt.enables {
				t.Errorf("%T, want EnableScaleDown: %t", v.Action, tt.enables)
			}
			u := v.After.Record
			if (u != nil) != tt.record || u != nil && u.Protected != tt.protected {
				t.Errorf("recorded is %+v", u)
			}
		})
	}
}

// TestScaleDownOfReplaced: another option that is on the node already ends the upgrade that it
// takes the place of.
func TestScaleDownOfReplaced(t *testing.T) {
	t.Parallel()
	f := underWay(inplace.BackingOff, func(f *request.Machine, u *request.Upgrade) {
		f.Marks.To = "version=v1.31.0"
		f.Node.Kubelet, f.Node.ScaleDown = at("v1.31.0"), inplace.ScaleDownByUs
		u.Option = "version=v1.31.2"
	})
	v := request.Planned(f, request.Plan{})
	if _, enables := v.Action.(request.EnableScaleDown); !enables {
		t.Errorf("%T, %+v", v.Action, v.State)
	}
}
