package engine

import (
	"context"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

const (
	releaseKey = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeRelease
	statusKey  = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeStatus
)

// upgraded is a machine of a MachineSet that an annotation has brought to a kubelet version.
func upgraded(name, set, kubelet string) *clusterv1.Machine {
	m := machine(name, set, from)
	m.Annotations = map[string]string{releaseKey: "revision=7"}
	m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	return m
}

// TestAlreadyThere raises the version of a group whose machines were all upgraded by annotations: no updater is asked, and none runs.
func TestAlreadyThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), upgraded("a", "old", to), upgraded("b", "old", to))
	s := w.updater("kubelet", 0, "{}")
	w.node("a", to)
	coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || !strings.Contains(string(coverage.Patches.Machine.Data), to) || !strings.Contains(coverage.Message, "nothing has to be done") {
		t.Fatalf("coverage %+v, error %v", coverage, err)
	}
	moved := w.machine("a")
	moved.OwnerReferences = machine("a", "new", to).OwnerReferences
	moved.Spec.Version = to
	if err := w.client.Update(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	empty := ""
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, &empty)
	if reply, err := w.update("a"); err != nil || !reply.Done || len(s.updates) > 0 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
	if release := w.machine("a").Annotations[releaseKey]; release != "revision=7" {
		t.Errorf("the release that is on the node became %q", release)
	}
}

// TestWhoIsThere has the version raised of a group with a machine that is there, and another one. Only where both are, no updater is asked.
func TestWhoIsThere(t *testing.T) {
	t.Parallel()
	release := func(option string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Annotations[releaseKey] = option }
	}
	noted := func(kubelet string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Status.NodeInfo.KubeletVersion = kubelet }
	}
	for name, tt := range map[string]struct {
		edit func(*clusterv1.Machine)
		// node is what the other one's node says; empty for none.
		node  string
		there bool
	}{
		"noted":                        {edit: noted(to), there: true},
		"noted later than it changed":  {edit: noted(from), node: to, there: true},
		"not noted yet":                {edit: func(m *clusterv1.Machine) { m.Status.NodeInfo = nil }, node: to, there: true},
		"older":                        {edit: noted(from), node: from},
		"without a node to ask":        {edit: noted(from)},
		"without a node":               {edit: func(m *clusterv1.Machine) { m.Status.NodeInfo, m.Status.NodeRef.Name = nil, "" }, node: to},
		"not upgraded by annotations":  {edit: func(m *clusterv1.Machine) { m.Annotations = nil }},
		"a channel of the minor":       {edit: release("channel=1.31-classic/stable"), there: true},
		"a channel of another minor":   {edit: release("channel=1.30-classic/stable")},
		"a channel without a minor":    {edit: release("channel=latest/stable"), there: true},
		"a version of another minor":   {edit: release("version=" + from)},
		"a release nobody understands": {edit: release("revision=x")},
		"being deleted": {edit: func(m *clusterv1.Machine) {
			now := metav1.Now()
			m.Annotations, m.Finalizers, m.DeletionTimestamp = nil, []string{"x/y"}, &now
		}, there: true},
		"of another MachineSet": {edit: func(m *clusterv1.Machine) {
			m.Annotations, m.OwnerReferences = nil, machine("b", "other", from).OwnerReferences
		}, there: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := upgraded("b", "old", to)
			tt.edit(other)
			w := newWorld(t, external(nil), deployment(), machineSet("old", from), upgraded("a", "old", to), other)
			w.updater("kubelet", 0, "{}")
			if tt.node != "" {
				w.node("b", tt.node)
			}
			if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); (err == nil) != tt.there {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestUnknownWhetherThere answers nothing where a node cannot be asked: a machine could be replaced that is there already.
func TestUnknownWhetherThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.Fallback = v1alpha1.FallbackRollingUpdate }), deployment(), machineSet("old", from), upgraded("a", "old", from))
	w.updater("kubelet", 0, "{}")
	w.node("a", to)
	w.nodes.SetUnreachable(inCluster, "no route to host")
	if coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("coverage %+v, error %v", coverage, err)
	}
	w.nodes.SetUnreachable(inCluster, "")
	if coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil || !strings.Contains(coverage.Message, "nothing has to be done") {
		t.Errorf("coverage %+v, error %v", coverage, err)
	}
}

// pagedReader lists Machines live, one in each page, and notes how it was asked.
type pagedReader struct {
	client.Reader
	lists []client.ListOptions
}

func (r *pagedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	machines, ok := list.(*clusterv1.MachineList)
	if !ok {
		return nil
	}
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	r.lists = append(r.lists, asked)
	at := 0
	if asked.Continue != "" {
		var err error
		if at, err = strconv.Atoi(asked.Continue); err != nil {
			return err
		}
	}
	if at+1 < len(machines.Items) {
		list.SetContinue(strconv.Itoa(at + 1))
	}
	machines.Items = machines.Items[at : at+1]
	return nil
}

// TestReadsOfWhoIsThere lists Machines live only where the cache shows a release on each, and then only those of the group.
func TestReadsOfWhoIsThere(t *testing.T) {
	t.Parallel()
	bare := machine("b", "old", from)
	elsewhere := machine("c", "elsewhere", from)
	elsewhere.Labels[clusterv1.MachineDeploymentNameLabel] = "elsewhere"
	for name, tt := range map[string]struct {
		machines []client.Object
		lists    int
		there    bool
	}{
		"no machine":       {},
		"only elsewhere":   {machines: []client.Object{elsewhere}},
		"one without":      {machines: []client.Object{upgraded("a", "old", to), bare}},
		"all":              {machines: []client.Object{upgraded("a", "old", to), upgraded("b", "old", to), elsewhere}, lists: 2, there: true},
		"the last page no": {machines: []client.Object{upgraded("a", "old", to), upgraded("b", "old", from)}, lists: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(nil), append(tt.machines, deployment(), machineSet("old", from))...)
			w.updater("kubelet", 0, "{}")
			live := &pagedReader{Reader: w.client}
			w.engine.Live = live
			if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); (err == nil) != tt.there {
				t.Errorf("error %v", err)
			}
			if len(live.lists) != tt.lists {
				t.Errorf("%d lists, want %d", len(live.lists), tt.lists)
			}
			for _, asked := range live.lists {
				if got := asked.LabelSelector.String(); asked.Limit != pageSize || asked.Namespace != namespace || got != "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/deployment-name=md" {
					t.Errorf("listed: limit %d, namespace %q, labels %s", asked.Limit, asked.Namespace, got)
				}
			}
		})
	}
}
