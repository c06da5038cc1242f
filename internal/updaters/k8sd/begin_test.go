package k8sd_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestCanBegin asks k8sd for nothing, and records nothing.
func TestCanBegin(t *testing.T) {
	t.Parallel()
	noToken := func(w *world) { w.secrets = nil }
	mayRun := func(w *world) {
		noToken(w)
		w.annotate(v1alpha1.RefreshAnnotation, `{"operation":"z","state":"running","changeId":"1"}`)
	}
	for name, tt := range map[string]struct {
		edit             func(*world)
		option           string
		refused, unknown string
	}{
		"yes":                         {},
		"no token":                    {edit: noToken, refused: "tells the tokens of nodes"},
		"no token, one may run":       {edit: mayRun, unknown: "tells the tokens of nodes"},
		"k8sd is away":                {edit: func(w *world) { w.server.Stop() }, unknown: "reaching k8sd"},
		"an option that is none":      {option: "track=1", refused: `"track" is not a method`},
		"no channel":                  {edit: func(w *world) { w.config.Channel = "" }, refused: "spec.inProcess.k8sd.channel"},
		"a record that is none":       {edit: func(w *world) { w.annotate(v1alpha1.RefreshAnnotation, "{") }, refused: "cannot be used"},
		"the API server does not say": {edit: func(w *world) { w.readError = errors.New("no answer") }, unknown: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.edit != nil {
				tt.edit(w)
			}
			request := porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")
			if tt.option != "" {
				request.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] = tt.option
			}
			got := w.updater(t).CanBegin(t.Context(), request)
			if !strings.Contains(got.Refused, tt.refused) || (got.Refused == "") != (tt.refused == "") ||
				!strings.Contains(got.Unknown, tt.unknown) || (got.Unknown == "") != (tt.unknown == "") {
				t.Errorf("%+v", got)
			}
			if state, _ := w.server.Machine(machine.Name); state.Requests > 0 || len(w.written) > 0 {
				t.Errorf("%d requests to k8sd; written was %q", state.Requests, w.written)
			}
		})
	}
}
