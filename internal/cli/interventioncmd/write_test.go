package interventioncmd

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/intervention"
	"github.com/windlass-dev/windlass/test/apiserver"
)

const failedMachine = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: m-1
  namespace: team-a
  annotations:
    windlass.dev/update-progress: '{"id":"u","to":"v1.33.1","phase":"Failed","attempt":3,"lastError":"the disk is full"}'
spec: {clusterName: prod, version: v1.33.1}
`

// TestChangedMeanwhile: a Machine that is updated again before the write does not get a retry that
// was decided on its failure.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	api, kubeconfig := apiserver.Start(t, failedMachine)
	m, _, err := management.Connect(&management.Flags{KubeConfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: "team-a", Name: "m-1"}
	r := reader{Cluster: m, verb: intervention.Retry, kind: intervention.Machine, key: key}
	out, decisions := &bytes.Buffer{}, 0
	w := writer{printer: cli.LinePrinter{Out: out}, decide: func(ctx context.Context) (intervention.Plan, error) {
		facts, err := r.read(ctx, time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
		if err != nil {
			return intervention.Plan{}, err
		}
		plan, err := intervention.Decide(r.verb, facts)
		if decisions++; decisions == 1 {
			changed := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": clusterv1.GroupVersion.String(), "kind": "Machine",
				"metadata": map[string]any{"name": "m-1", "namespace": "team-a"},
				"spec":     map[string]any{"clusterName": "prod", "version": "v1.33.1"},
			}}
			api.Put(changed)
		}
		return plan, err
	}}
	if w.client, err = m.NewClient(); err != nil {
		t.Fatal(err)
	}
	err = w.write(t.Context())
	refused, ok := errors.AsType[*cli.ExitError](err)
	if !ok || refused.Code != cli.ExitRefused || !strings.Contains(err.Error(), "nothing of Machine team-a/m-1") {
		t.Errorf("the error is %v", err)
	}
	var after clusterv1.Machine
	if err := m.Object(t.Context(), "Machine", key, &after); err != nil {
		t.Fatal(err)
	}
	if _, written := after.Annotations[v1alpha1.UpdateRetryAnnotation]; written || decisions != 2 || out.Len() > 0 {
		t.Errorf("after %d decisions the annotations are %v, and %q is printed", decisions, after.Annotations, out)
	}
}

// onlyOf may read objects of one kind.
type onlyOf struct {
	client.Reader
	kind reflect.Type
}

var errForbidden = apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no right"))

func (r onlyOf) Get(ctx context.Context, key types.NamespacedName, into client.Object, o ...client.GetOption) error {
	if reflect.TypeOf(into) != r.kind {
		return errForbidden
	}
	return r.Reader.Get(ctx, key, into, o...)
}

func (r onlyOf) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errForbidden
}

// TestLeastRights: who may read the object alone can pause and resume it, and retry or abandon a
// Machine.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	_, kubeconfig := apiserver.Start(t, failedMachine+"---\n"+`apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md-0, namespace: team-a}
spec: {clusterName: prod, paused: true}
`)
	m, _, err := management.Connect(&management.Flags{KubeConfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	api := m.Reader
	for _, test := range []struct {
		verb   intervention.Verb
		kind   intervention.Kind
		name   string
		object client.Object
		reads  bool
	}{
		{intervention.Retry, intervention.Machine, "m-1", &clusterv1.Machine{}, true},
		{intervention.Pause, intervention.Machine, "m-1", &clusterv1.Machine{}, true},
		{intervention.Pause, intervention.Cluster, "prod", &clusterv1.Cluster{}, true},
		{intervention.Resume, intervention.MachineDeployment, "md-0", &clusterv1.MachineDeployment{}, true},
		{intervention.Retry, intervention.MachineDeployment, "md-0", &clusterv1.MachineDeployment{}, false},
	} {
		m.Reader = onlyOf{api, reflect.TypeOf(test.object)}
		r := reader{Cluster: m, verb: test.verb, kind: test.kind}
		r.key = types.NamespacedName{Namespace: "team-a", Name: test.name}
		facts, err := r.read(t.Context(), time.Now())
		if !test.reads {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s %s: the error is %v", test.verb, test.kind, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", test.verb, test.kind, err)
			continue
		}
		if plan, err := intervention.Decide(r.verb, facts); err != nil || len(plan.Changes) != 1 {
			t.Errorf("%s %s: the plan is %v, %v", test.verb, test.kind, plan, err)
		}
	}
}
