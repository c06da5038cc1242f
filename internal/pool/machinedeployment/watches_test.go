package machinedeployment

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
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

// TestForPolicyKeepsWatchFilter: an edit of an UpdatePolicy wakes no MachineDeployment that another
// manager reconciles, and none of another namespace.
func TestForPolicyKeepsWatchFilter(t *testing.T) {
	made := func(namespace, name, shard string) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		md.Namespace, md.Name = namespace, name
		if shard != "" {
			md.Labels = map[string]string{clusterv1.WatchLabel: shard}
		}
		return md
	}
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(made("ns", "ours", "a"),
		made("ns", "theirs", "b"), made("ns", "bare", ""), made("other", "ours", "a")).Build()
	policy := &v1alpha1.UpdatePolicy{}
	policy.Namespace, policy.Name = "ns", "p"
	for filter, want := range map[string][]string{
		"a": {"ours"}, "c": nil, "": {"bare", "ours", "theirs"},
	} {
		r := &Reconciler{Options: Options{Client: reader, WatchFilter: filter}}
		var got []string
		for _, request := range r.ForPolicy(t.Context(), policy) {
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the filter %q lets %v pass, want %v", filter, got, want)
		}
	}
}
