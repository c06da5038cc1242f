package hookserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// drawGraph draws a graph over the minors v1.24 to v1.31, some of it with builds that have no order of their own. Most
// graphs are valid and hold every minor, so that many requests have a plan.
func drawGraph(t *rapid.T) v1alpha1.UpgradeGraph {
	var listed []string
	for minor := 24; minor <= 31; minor++ {
		offered := rapid.SampledFrom([]int{0, 1, 2, 2, 3, 3, 4, 4}).Draw(t, "offered")
		listed = append(listed, rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string { return drawVersion(t, minor) }), offered, offered, rapid.ID).Draw(t, "versions")...)
	}
	if len(listed) == 0 {
		listed = append(listed, "v1.24.0")
	}
	spec := v1alpha1.UpgradeGraphSpec{Classes: []v1alpha1.ClassReference{{Name: "standard"}}}
	for _, v := range listed {
		spec.Versions = append(spec.Versions, v1alpha1.Version(v))
	}
	end := func(v, label string) v1alpha1.VersionMatch {
		return v1alpha1.VersionMatch(rapid.SampledFrom([]string{v, v, minorOf(v), ""}).Draw(t, label))
	}
	for range rapid.IntRange(0, 6).Draw(t, "edges") {
		from := rapid.IntRange(0, len(listed)-1).Draw(t, "edge")
		to := min(from+rapid.IntRange(1, 3).Draw(t, "further"), len(listed)-1)
		spec.Blocked = append(spec.Blocked, v1alpha1.BlockedEdge{From: end(listed[from], "from"), To: end(listed[to], "to"), Reason: "because"})
	}
	for range rapid.IntRange(0, 2).Draw(t, "floors") {
		atLeast := version.MustParse(rapid.SampledFrom(listed).Draw(t, "atLeast"))
		spec.Floors = append(spec.Floors, v1alpha1.Floor{Before: v1alpha1.Minor(atLeast.Minor().Next().String()), AtLeast: v1alpha1.Version(atLeast.String()), Reason: "because"})
	}
	return graph("drawn", spec)
}

func drawVersion(t *rapid.T, minor int) string {
	v := fmt.Sprintf("v1.%d.%d", minor, rapid.IntRange(0, 3).Draw(t, "patch"))
	return v + rapid.SampledFrom([]string{"", "", "", "", "+rke2r1", "+rke2r2", "+1", "-rc.1"}).Draw(t, "suffix")
}

func minorOf(v string) string { return strings.Join(strings.Split(v, ".")[:2], ".") }

// TestSuccessIsValid holds that whatever the graph and the request, an answer that is a success passes the validation of
// a GenerateUpgradePlan response, crosses no block and undercuts no floor.
func TestSuccessIsValid(t *testing.T) {
	t.Parallel()
	successes := 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		listed := func(label string) string {
			return string(rapid.SampledFrom(g.Spec.Versions).Draw(t, label))
		}
		from, workers, to := listed("from"), "", listed("to")
		if rapid.IntRange(0, 9).Draw(t, "from elsewhere") == 0 {
			from = drawVersion(t, rapid.IntRange(24, 31).Draw(t, "minor"))
		}
		if rapid.IntRange(0, 19).Draw(t, "order") > 0 && version.Compare(version.MustParse(from), version.MustParse(to)) == version.Greater {
			from, to = to, from
		}
		if rapid.IntRange(0, 3).Draw(t, "workers") > 0 {
			behind := int(version.MustParse(from).Minor().Minor) - rapid.IntRange(0, 3).Draw(t, "behind")
			workers = rapid.OneOf(rapid.Just(from), rapid.Custom(func(t *rapid.T) string { return drawVersion(t, behind) })).Draw(t, "workers")
		}
		r := request(from, workers, to)
		begun := rapid.Bool().Draw(t, "begun")
		if begun {
			r.Cluster.Annotations = map[string]string{"runtime.cluster.x-k8s.io/pending-hooks": "AfterWorkersUpgrade"}
		}
		response := &runtimehooksv1.GenerateUpgradePlanResponse{}
		hookserver.NewUpgradePlanner(graphs{g}, nil, nil, nil).GenerateUpgradePlan(t.Context(), r, response)
		switch response.Status {
		case runtimehooksv1.ResponseStatusSuccess:
			successes++
			checkSuccess(t, g.Spec, r, response, begun)
		case runtimehooksv1.ResponseStatusFailure:
			if response.Message == "" || len(response.ControlPlaneUpgrades)+len(response.WorkersUpgrades) > 0 {
				t.Fatalf("a failure without a message, or with half a plan: %+v", response)
			}
		default:
			t.Fatalf("unknown status: %+v", response)
		}
	})
	t.Logf("%d plans", successes)
	if successes == 0 {
		t.Error("no graph and request led to a plan, so nothing was tested")
	}
}

func checkSuccess(t *rapid.T, spec v1alpha1.UpgradeGraphSpec, r *runtimehooksv1.GenerateUpgradePlanRequest, response *runtimehooksv1.GenerateUpgradePlanResponse, begun bool) {
	controlPlane, workers := split(stops(response.ControlPlaneUpgrades)), split(stops(response.WorkersUpgrades))
	from, to := version.MustParse(r.FromControlPlaneKubernetesVersion), version.MustParse(r.ToKubernetesVersion)
	question := plan.Request{Inventory: plan.Inventory{ControlPlane: from}, Target: to}
	if r.FromWorkersKubernetesVersion != "" {
		question.Inventory.Groups = []plan.Group{{Name: "workers", Version: version.MustParse(r.FromWorkersKubernetesVersion)}}
		question.Inventory.WorkersUpgrading = begun
	}
	question.Source = plan.Response{ControlPlane: parse(controlPlane), Workers: parse(workers)}
	if _, err := plan.Compute(question); err != nil {
		t.Fatalf("the answer %q %q is refused: %v", controlPlane, workers, err)
	}
	// The rules that the validation above cannot see when a list is empty.
	if pending := r.FromWorkersKubernetesVersion != "" && r.FromWorkersKubernetesVersion != r.ToKubernetesVersion; pending != (len(workers) > 0) {
		t.Fatalf("workers at %q get %q", r.FromWorkersKubernetesVersion, workers)
	}
	// Cluster API compares these as strings.
	for _, v := range workers {
		if v != r.FromControlPlaneKubernetesVersion && !slices.Contains(controlPlane, v) {
			t.Fatalf("workers stop at %q, which the control plane %q never has", v, controlPlane)
		}
	}
	route := append([]string{r.FromControlPlaneKubernetesVersion}, controlPlane...)
	for i := 1; i < len(route); i++ {
		if b := slices.IndexFunc(spec.Blocked, func(b v1alpha1.BlockedEdge) bool { return covers(b.From, route[i-1]) && covers(b.To, route[i]) }); b >= 0 {
			t.Fatalf("the step %s -> %s crosses %+v", route[i-1], route[i], spec.Blocked[b])
		}
		a, b := version.MustParse(route[i-1]), version.MustParse(route[i])
		for _, f := range spec.Floors {
			before, err := version.ParseMinor(string(f.Before))
			if err != nil {
				t.Fatal(err)
			}
			crosses := a.Minor().Before(before) && !b.Minor().Before(before)
			if crosses && version.Compare(a, version.MustParse(string(f.AtLeast))) == version.Less {
				t.Fatalf("the step %s -> %s undercuts %+v", a, b, f)
			}
		}
	}
}

// covers is the meaning of a blocked edge's end, by its text.
func covers(m v1alpha1.VersionMatch, v string) bool {
	return m == "" || string(m) == v || string(m) == minorOf(v)
}

func split(s string) []string { return strings.Fields(s) }

func parse(items []string) []version.Version {
	versions := make([]version.Version, 0, len(items))
	for _, item := range items {
		versions = append(versions, version.MustParse(item))
	}
	return versions
}

// FuzzGenerateUpgradePlan holds that no request, decoded as the server decodes it, makes the handler panic or answer with
// anything but a success with a plan or a failure with a message; and that it answers the same twice.
func FuzzGenerateUpgradePlan(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"cluster":null,"settings":null}`))
	f.Add([]byte(`{"settings":{"graph":"stable"},"fromControlPlaneKubernetesVersion":"v1.29.0","fromWorkersKubernetesVersion":"v1.29.0","toKubernetesVersion":"v1.33.0"}`))
	f.Add([]byte(`{"cluster":{"metadata":{"namespace":"classes","name":"c","annotations":{"runtime.cluster.x-k8s.io/pending-hooks":",AfterWorkersUpgrade"}},` +
		`"spec":{"topology":{"classRef":{"name":"standard"}}}},"fromControlPlaneKubernetesVersion":"1.31.2","fromWorkersKubernetesVersion":"v1.30.3","toKubernetesVersion":"1.32.3"}`))
	f.Add([]byte(`{"fromControlPlaneKubernetesVersion":"v4294967295.4294967295.4294967295","toKubernetesVersion":"v4294967295.4294967296.0"}`))
	f.Add([]byte(`{"settings":{"graph":"stable"},"fromControlPlaneKubernetesVersion":"v1.0.0","fromWorkersKubernetesVersion":"v1.4294967295.0","toKubernetesVersion":"v1.4294967295.0"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var answers [2]string
		for i := range answers {
			var r runtimehooksv1.GenerateUpgradePlanRequest
			if json.Unmarshal(body, &r) != nil {
				return
			}
			response := ask(t, graphs{stable()}, &r)
			failed := response.Status == runtimehooksv1.ResponseStatusFailure && response.Message != "" && response.ControlPlaneUpgrades == nil && response.WorkersUpgrades == nil
			if !failed && (response.Status != runtimehooksv1.ResponseStatusSuccess || response.Message != "") {
				t.Fatalf("neither a success nor a failure: %+v", response)
			}
			encoded, err := json.Marshal(response)
			if err != nil {
				t.Fatal(err)
			}
			answers[i] = string(encoded)
		}
		if answers[0] != answers[1] {
			t.Fatalf("two answers: %s\n%s", answers[0], answers[1])
		}
	})
}
