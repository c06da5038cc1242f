package hosts_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
)

// TestCanBegin looks at the host, and brings files to it only. A Pod that may be needed soon stays.
func TestCanBegin(t *testing.T) {
	t.Parallel()
	hostError := func(reason port.HostReason) error {
		return &port.HostError{Reason: reason, Host: "node-m", Err: errors.New("no")}
	}
	for name, tt := range map[string]struct {
		edit             func(*world)
		refused, unknown bool
		preparing        bool
		closed           int
	}{
		"by SSH":           {closed: 1, preparing: true},
		"by SSH, away":     {edit: func(w *world) { w.execErr = hostError(port.HostUnreachable) }, unknown: true, closed: 1},
		"by a Pod":         {edit: inPod, preparing: true},
		"by a Pod, away":   {edit: func(w *world) { inPod(w); w.execErr = hostError(port.HostUnreachable) }, unknown: true},
		"by a Pod, no way": {edit: func(w *world) { inPod(w); w.execErr = hostError(port.HostLoginRefused) }, refused: true, closed: 1},
		"no file in the bundle": {
			edit: func(w *world) {
				w.config.Binaries.URL, w.config.Binaries.Bundle = "", "/nowhere.tar"
				w.bundle = hosts.BundleFile{Path: "/nowhere.tar"}
			},
			refused: true, closed: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.edit != nil {
				tt.edit(w)
			}
			got := w.updater(t).CanBegin(t.Context(), request("a-1"))
			if (got.Refused != "") != tt.refused || (got.Unknown != "") != tt.unknown {
				t.Errorf("%+v", got)
			}
			if w.closed != tt.closed || (got.Preparing != "") != tt.preparing {
				t.Errorf("%+v; closed %d times, want %d", got, w.closed, tt.closed)
			}
			for _, step := range w.starts {
				if !linuxhost.Prepares(linuxhost.Step{Name: linuxhost.Name(step)}) {
					t.Errorf("the host was changed by %s", step)
				}
			}
		})
	}
}

// TestPreparesBeforeTheDrain: the question is answered with yes once all binaries and images are on
// the host, and with a refusal if one is unavailable. Nothing else is done before that.
func TestPreparesBeforeTheDrain(t *testing.T) {
	t.Parallel()
	binaries := []string{"fetch-kubeadm", "fetch-kubelet"}
	for name, test := range map[string]struct {
		fails string
		want  []string
	}{
		"all are there":           {"", append(slices.Clone(binaries), "pull-images")},
		"a binary is unavailable": {"fetch-kubelet", binaries},
		"an image is unavailable": {"pull-images", append(slices.Clone(binaries), "pull-images")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.exit[test.fails] = 1
			u := w.updater(t)
			var got inplace.Readiness
			for range 10 {
				if got = u.CanBegin(t.Context(), request("a-1")); got.Preparing == "" {
					break
				}
				if got.RetryAfter == 0 || !strings.Contains(got.Preparing, "step ") {
					t.Errorf("%+v", got)
				}
				w.advance()
			}
			if (got.Refused != "") != (test.fails != "") || got.Unknown != "" || got.Preparing != "" {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(test.want, w.starts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPreparesAheadOfTheControlPlane: a worker whose update may not begin yet is prepared, although the API
// server is older than the worker is to be. Where the update may begin, that is a refusal. A control plane is prepared for
// no version that it cannot go to at once.
func TestPreparesAheadOfTheControlPlane(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ahead        bool
		controlPlane bool
		apiServer    string
		refused      string
		starts       int
	}{
		"it may not begin yet":                {ahead: true, apiServer: porttest.UpdaterFrom, starts: 1},
		"it may begin":                        {apiServer: porttest.UpdaterFrom, refused: "upgrade the control plane to v1.32 first"},
		"a control plane":                     {ahead: true, controlPlane: true, apiServer: porttest.UpdaterFrom, starts: 1},
		"a control plane that is too far off": {ahead: true, controlPlane: true, apiServer: "v1.30.0", refused: "more than one minor on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apiServer = test.apiServer
			r := request("a-1")
			if test.controlPlane {
				w.roles = []string{"control-plane", "kubectl"}
				r.Desired.Machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
			}
			if test.ahead {
				r.Desired.Machine.Annotations[v1alpha1.PrefetchAnnotation] = "true"
			}
			got := w.updater(t).CanBegin(t.Context(), r)
			if (got.Refused != "") != (test.refused != "") || !strings.Contains(got.Refused, test.refused) {
				t.Errorf("%+v", got)
			}
			if len(w.starts) != test.starts || (got.Preparing != "") != (test.starts > 0) {
				t.Errorf("%+v, and it started %v", got, w.starts)
			}
		})
	}
}

// TestPodGoesAfterPrefetch: a Pod that prepared a host whose update may not begin yet does not stay. One that is
// needed for the update does.
func TestPodGoesAfterPrefetch(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[string]int{"true": 1, "": 0} {
		w := newWorld(t)
		inPod(w)
		u, r := w.updater(t), request("a-1")
		r.Desired.Machine.Annotations[v1alpha1.PrefetchAnnotation] = ahead
		got := inplace.Readiness{Preparing: "not asked yet"}
		for range 10 {
			if got = u.CanBegin(t.Context(), r); got.Preparing == "" {
				break
			}
			w.advance()
		}
		if got != (inplace.Readiness{}) || w.closed != want {
			t.Errorf("ahead %q: %+v, closed %d times, want %d", ahead, got, w.closed, want)
		}
	}
}

// inPod has hosts reached by Pods.
func inPod(w *world) { w.config.SSH, w.config.Pod = nil, &v1alpha1.HostPod{Image: "i"} }

// TestPodStaysUntilTheEnd keeps the Pod from one request to the next.
func TestPodStaysUntilTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.SSH, w.config.Pod = nil, &v1alpha1.HostPod{Image: "image", Namespace: "ns"}
	u := w.updater(t)
	u.UpdateMachine(t.Context(), request("a-1"))
	if w.closed != 0 || *w.target.Pod != (hosts.PodTarget{Image: "image", Namespace: "ns"}) || w.target.Node != "node-m" {
		t.Errorf("closed %d times, target %+v of node %s", w.closed, w.target.Pod, w.target.Node)
	}
	w.advance()
	if got := u.UpdateMachine(t.Context(), request("a-1")); got.Outcome != inplace.Finishes || w.closed != 1 {
		t.Errorf("closed %d times at %+v", w.closed, got)
	}
}
