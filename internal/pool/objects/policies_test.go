package objects

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestLateSource starts a source whose kind is not installed at first, and then only in part. The
// source starts once the kind is there, and the controller does not wait for it.
func TestLateSource(t *testing.T) {
	answers := make(chan error)
	started := make(chan struct{})
	unknown, none := errors.New("only some CRDs are installed"), errors.New("not installed")
	late := lateSource{
		source: source.Func(func(
			context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request],
		) error {
			close(started)
			return nil
		}),
		exists: func() (bool, error) {
			err := <-answers
			if errors.Is(err, none) {
				return false, nil
			}
			return err == nil, err
		},
		retry: time.Millisecond,
	}
	if _, waits := any(late).(source.SyncingSource); waits {
		t.Error("a controller would wait until the kind is installed")
	}
	if err := late.Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []error{none, unknown, none} {
		answers <- answer
		select {
		case <-started:
			t.Fatalf("the source started although: %v", answer)
		default:
		}
	}
	answers <- nil
	<-started
}

// TestPolicyWatchKeepsFilter: an edit of an UpdatePolicy wakes no object that another manager
// reconciles, none of another namespace, and both kinds.
func TestPolicyWatchKeepsFilter(t *testing.T) {
	labeled := func(shard string) map[string]string {
		if shard == "" {
			return nil
		}
		return map[string]string{clusterv1.WatchLabel: shard}
	}
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range []metav1.ObjectMeta{
		{Namespace: "ns", Name: "ours", Labels: labeled("a")}, {Namespace: "ns", Name: "theirs", Labels: labeled("b")},
		{Namespace: "ns", Name: "bare"}, {Namespace: "other", Name: "ours", Labels: labeled("a")},
	} {
		builder.WithObjects(&clusterv1.MachineDeployment{ObjectMeta: o}, &clusterv1.MachineSet{ObjectMeta: o})
	}
	policy := &v1alpha1.UpdatePolicy{}
	policy.Namespace, policy.Name = "ns", "p"
	reader := builder.Build()
	for kind, newList := range map[string]func() client.ObjectList{
		"MachineDeployments": func() client.ObjectList { return &clusterv1.MachineDeploymentList{} },
		"MachineSets":        func() client.ObjectList { return &clusterv1.MachineSetList{} },
	} {
		for filter, want := range map[string][]string{
			"a": {"ours"}, "c": nil, "": {"bare", "ours", "theirs"},
		} {
			var got []string
			watch := PolicyWatch{Reader: reader, NewList: newList, Filter: filter}
			for _, request := range watch.Requests(t.Context(), policy) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the filter %q lets %v pass, want %v", kind, filter, got, want)
			}
		}
	}
	none := PolicyWatch{Reader: reader, NewList: func() client.ObjectList { return &v1alpha1.UpdatePolicyList{} }}
	if got := none.Requests(t.Context(), policy); got != nil {
		t.Errorf("objects that cannot be listed: %v", got)
	}
}
