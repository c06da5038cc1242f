package guardwebhook_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
)

const listField = "spec.kubernetesVersion"

func TestClassVersions(t *testing.T) {
	settled := cell{target: "v1.31.2"}
	middle := cell{target: "v1.33.0", controlPlane: "v1.31.2"}
	tests := map[string]struct {
		before, after []string
		extension     bool
		runs          map[string]cell
		edit          func(*reader)
		want          []string
	}{
		"no change":         {before: list, after: list, runs: map[string]cell{"c": settled}},
		"shorter":           {before: list, after: list[1:], runs: map[string]cell{"c": settled}},
		"spelled otherwise": {before: list, after: []string{"1.31.2", "1.32.3"}, runs: map[string]cell{"c": settled}},
		"removed": {
			before: list, after: list[2:], runs: map[string]cell{"c": settled, "b": settled},
			want: []string{"spec.kubernetesVersions: Forbidden: v1.31.2 is the version of Clusters default/b, default/c: keep it in the list until then"},
		},
		"the way is lost": {
			before: list, after: []string{"v1.33.0"}, runs: map[string]cell{"c": middle, "b": {target: "v1.33.0"}},
			want: []string{"spec.kubernetesVersions: Forbidden: it leaves no way from v1.31.2 to v1.33.0, which is ahead of Cluster default/c: keep the versions on that way until it is done"},
		},
		"the list goes on the way": {
			before: list, runs: map[string]cell{"c": middle},
			want: []string{"spec.kubernetesVersions: Forbidden: it leaves no way from v1.31.2 to v1.33.0, which is ahead of Cluster default/c: keep the versions on that way until it is done"},
		},
		"an extension takes over": {before: list, extension: true, runs: map[string]cell{"c": middle}},
		"faults of a new list": {
			before: list, after: []string{"v1.31.2", "v1.33", "v1.33.0", "v1.32.3", "v2.33.0"}, runs: map[string]cell{"c": middle},
			want: []string{
				`spec.kubernetesVersions[1]: Invalid value: "v1.33": "v1.33" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
				`spec.kubernetesVersions[2]: Invalid value: "v1.33.0": the control plane moves one minor at a time: put a v1.32 version before it`,
				`spec.kubernetesVersions[3]: Invalid value: "v1.32.3": it must be newer than v1.33.0, or another build of it: list the versions from old to new, each once`,
				`spec.kubernetesVersions[4]: Invalid value: "v2.33.0": no upgrade between major versions is defined, and v1.32.3 stands before it: use a ClusterClass for each`,
			},
		},
		"faults of an old list": {before: []string{"v1.31.2", "v1.32", "v1.33.0"}, after: []string{"v1.31.2", "v1.32", "v1.33.0"}, runs: map[string]cell{"c": settled}},
		"an old list that does not hold a Cluster's version": {
			before: []string{"v1.30.1"}, after: []string{"v1.30.1"}, runs: map[string]cell{"c": settled},
			want: []string{"spec.kubernetesVersions: Forbidden: v1.31.2 is the version of Cluster default/c: keep it in the list until then"},
		},
		"clusters cannot be listed": {
			before: list, after: list[1:], edit: func(r *reader) { r.fail["Cluster"] = errors.New("away") },
			want: []string{": listing the Clusters of ClusterClass default/class: away"},
		},
		"a control plane cannot be read": {
			before: list, after: list[1:], runs: map[string]cell{"c": settled}, edit: func(r *reader) { r.fail[controlPlaneKind] = errors.New("away") },
			want: []string{": reading the control plane of Cluster default/c: failed to retrieve ExampleControlPlane default/c-cp: away"},
		},
		"control planes are not read for nothing": {
			before: list, after: list, runs: map[string]cell{"c": settled}, edit: func(r *reader) { r.fail[controlPlaneKind] = errors.New("away") },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var all []client.Object
			for cluster, runs := range test.runs {
				all = append(all, clusterAndObjects(cluster, runs)...)
			}
			read := newReader(all...)
			if test.edit != nil {
				test.edit(read)
			}
			before := class("class", cell{versions: test.before})
			after := class("class", cell{versions: test.after, extension: test.extension})
			given := after.DeepCopy()
			_, err := (&guardwebhook.ClusterClass{Client: read}).ValidateUpdate(t.Context(), before, after)
			if diff := cmp.Diff(given, after); diff != "" {
				t.Errorf("the class was changed:\n%s", diff)
			}
			if diff := cmp.Diff(test.want, flatten(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func clusterAndObjects(name string, runs cell) []client.Object {
	return append(objects(name, runs), cluster(name, runs))
}

// flatten lists the causes of an error, in their order.
func flatten(err error) []string {
	var lines []string
	all := causes(err)
	for _, field := range []string{"", "spec.kubernetesVersions"} {
		for _, message := range all[field] {
			lines = append(lines, field+": "+message)
		}
	}
	for i := range 100 {
		field := fmt.Sprintf("spec.kubernetesVersions[%d]", i)
		for _, message := range all[field] {
			lines = append(lines, field+": "+message)
		}
	}
	return lines
}

// TestWaysOfClustersThatNeedNone holds that a Cluster that is being created, or deleted, holds no list back by its way.
func TestWaysOfClustersThatNeedNone(t *testing.T) {
	middle := cell{target: "v1.33.0", controlPlane: "v1.31.2"}
	created, gone, deleted := cluster("created", middle), cluster("gone", middle), cluster("deleted", middle)
	created.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	read := newReader(append(objects("deleted", middle), created, gone, deleted)...)
	before, after := class("class", cell{versions: list}), class("class", cell{versions: list[3:]})
	// Deleted is there with all its objects, so it holds the list back until it goes.
	if _, err := (&guardwebhook.ClusterClass{Client: read}).ValidateUpdate(t.Context(), before, after); !strings.Contains(fmt.Sprint(err), "ahead of Cluster default/deleted:") {
		t.Errorf("with a Cluster in mid-chain: %v", err)
	}
	now := deleted.CreationTimestamp
	now.Time = now.AddDate(2026, 0, 0)
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"test/finalizer"}
	read = newReader(append(objects("deleted", middle), created, gone, deleted)...)
	if _, err := (&guardwebhook.ClusterClass{Client: read}).ValidateUpdate(t.Context(), before, after); err != nil {
		t.Error(err)
	}
}

var classLists = [][]string{
	nil, {"v1.31.2"}, {"v1.31.2", "v1.32.3"}, {"v1.31.2", "v1.31.2"}, {"v1.32.3", "v1.31.2"}, {"v1.31.2", "v1.33.0"}, {"v1.31.2+a", "v1.31.2+b"}, {"v1.31.2+2", "v1.31.2+1"},
	{"v1.31.0-rc.1", "v1.31.0"}, {"nonsense"}, {"v1.31.2", "nonsense", "v1.32.3"}, {"v1.30.1", "v1.31.2", "v1.32.3", "v1.33.0"},
}

var classEdits = map[string]func(*clusterv1.ClusterClass){
	"":                func(*clusterv1.ClusterClass) {},
	"removed workers": func(c *clusterv1.ClusterClass) { c.Spec.Workers.MachineDeployments = nil },
	"another kind":    func(c *clusterv1.ClusterClass) { c.Spec.ControlPlane.TemplateRef.Kind = "OtherTemplate" },
	"workers twice": func(c *clusterv1.ClusterClass) {
		c.Spec.Workers.MachinePools = append(c.Spec.Workers.MachinePools, c.Spec.Workers.MachinePools...)
	},
	"no infrastructure": func(c *clusterv1.ClusterClass) { c.Spec.Infrastructure.TemplateRef.Name = "" },
}

// TestClassDifferential compares with Cluster API's own webhook: what is not about the list is answered the same, to the letter, and
// lists are allowed that it allows, for Clusters that are not on their way. All lists here are spelled as it knows them.
func TestClassDifferential(t *testing.T) {
	settled := cell{target: "v1.31.2"}
	allowed, refused := 0, 0
	for _, users := range [][]client.Object{nil, clusterAndObjects("c", settled)} {
		read := newReader(users...)
		stock, ours := &upstream.ClusterClass{Client: read}, &guardwebhook.ClusterClass{Client: read}
		for _, older := range classLists {
			for _, newer := range classLists {
				for edit, apply := range classEdits {
					before, after := class("class", cell{versions: older}), class("class", cell{versions: newer})
					apply(after)
					stockWarnings, stockErr := stock.ValidateUpdate(t.Context(), before, after)
					warnings, err := ours.ValidateUpdate(t.Context(), before, after)
					where := fmt.Sprintf("%v to %v, %s, %d", older, newer, edit, len(users))
					compareClass(t, where, stockErr, err)
					if diff := cmp.Diff(stockWarnings, warnings); diff != "" {
						t.Errorf("%s: %s", where, diff)
					}
					_, stockErr = stock.ValidateCreate(t.Context(), after)
					_, err = ours.ValidateCreate(t.Context(), after)
					compareClass(t, "creating "+where, stockErr, err)
					if err == nil {
						allowed++
					} else {
						refused++
					}
				}
			}
		}
	}
	if allowed == 0 || refused == 0 {
		t.Errorf("%d allowed, %d refused", allowed, refused)
	}
}

func compareClass(t *testing.T, where string, stock, ours error) {
	t.Helper()
	if diff := cmp.Diff(without(causes(stock), listField), without(causes(ours), listField)); diff != "" {
		t.Errorf("%s: other fields than the list are answered differently (-Cluster API +ours):\n%s", where, diff)
	}
	if (stock == nil) != (ours == nil) {
		t.Errorf("%s: Cluster API: %v; ours: %v", where, stock, ours)
	}
}
