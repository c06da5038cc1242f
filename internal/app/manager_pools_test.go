package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/machinedeployment"
)

// made is an UpdatePolicy of the group of groupOfPolicies. It keeps the Machines unless change says
// otherwise.
func made(name string, change func(*v1alpha1.UpdatePolicy)) *v1alpha1.UpdatePolicy {
	p := &v1alpha1.UpdatePolicy{}
	p.Namespace, p.Name = "default", name
	p.Spec.Strategy = v1alpha1.ExternalUpdate
	p.Spec.Targets = []v1alpha1.UpdateTarget{{MachineDeployments: []v1alpha1.MachineDeploymentName{"md"}}}
	if change != nil {
		change(p)
	}
	return p
}

// TestKeptBy: which UpdatePolicies keep the Machines of a group, and for how long its remediation
// waits for updates then.
func TestKeptBy(t *testing.T) {
	t.Parallel()
	replaces := func(p *v1alpha1.UpdatePolicy) { p.Spec.Fallback = v1alpha1.FallbackRollingUpdate }
	updatesOnDelete := func(p *v1alpha1.UpdatePolicy) {
		replaces(p)
		p.Spec.OnDelete = v1alpha1.OnDeleteInPlace
	}
	handsOver := func(p *v1alpha1.UpdatePolicy) {
		replaces(p)
		p.Spec.HandOver = v1alpha1.HandOverGroup
	}
	patient := func(p *v1alpha1.UpdatePolicy) {
		p.Spec.MaxAttempts, p.Spec.AttemptTimeoutSeconds, p.Spec.SoakSeconds = 2, 600, 60
	}
	elsewhere := func(p *v1alpha1.UpdatePolicy) { p.Namespace = "other" }
	otherCluster := func(p *v1alpha1.UpdatePolicy) {
		p.Spec.Targets = []v1alpha1.UpdateTarget{{ClusterName: "other"}}
	}
	type asked struct {
		Keep, UpdateOnDelete, HandOver bool
		Name                           string
	}
	for name, tt := range map[string]struct {
		policies []client.Object
		want     asked
		// holds is how long Machines are kept from remediation while they are updated; 0 for not at all.
		holds time.Duration
		order policy.Order
		// limited says that a policy bounds rollouts, and held that nobody can tell which.
		limited, held bool
		// onDelete says that the group has the strategy OnDelete.
		onDelete bool
	}{
		"no policy": {},
		"a policy that keeps": {
			policies: []client.Object{made("a", nil)},
			want:     asked{Keep: true, Name: "a"}, holds: 90 * time.Minute, limited: true,
		},
		"a policy with limits": {
			policies: []client.Object{made("a", patient)},
			want:     asked{Keep: true, Name: "a"}, holds: 21 * time.Minute, limited: true,
		},
		"a policy with an order that replaces": {
			policies: []client.Object{made("a", func(p *v1alpha1.UpdatePolicy) {
				replaces(p)
				p.Spec.Order.Labels = []string{"rack"}
			})},
			want: asked{Name: "a"}, limited: true,
			order: policy.Order{Labels: []string{"rack"}},
		},
		"a policy that updates where people delete": {
			policies: []client.Object{made("a", updatesOnDelete)}, onDelete: true,
			want:  asked{Keep: true, UpdateOnDelete: true, Name: "a"},
			holds: 90 * time.Minute, limited: true,
		},
		"a policy that keeps, and people delete": {
			policies: []client.Object{made("a", nil)}, onDelete: true,
			want: asked{Keep: true, Name: "a"}, holds: 90 * time.Minute,
		},
		"a policy that replaces, and people delete": {
			policies: []client.Object{made("a", replaces)}, onDelete: true,
			want: asked{Name: "a"},
		},
		"such a policy and the other strategy": {
			policies: []client.Object{made("a", updatesOnDelete)},
			want:     asked{Name: "a"}, limited: true,
		},
		"a policy that replaces": {
			policies: []client.Object{made("a", replaces)},
			want:     asked{Name: "a"}, limited: true,
		},
		// While an updater declines the group, its MachineSets create and delete as a rollout asks.
		"a policy that hands over and replaces": {
			policies: []client.Object{made("a", handsOver)}, limited: true,
			want:  asked{Name: "a", HandOver: true},
			holds: 90 * time.Minute,
		},
		"a policy of another space": {policies: []client.Object{made("a", elsewhere)}},
		"two policies that replace": {
			policies: []client.Object{made("a", replaces), made("b", replaces)}, held: true,
		},
		"a policy of another cluster": {policies: []client.Object{made("a", otherCluster)}},
		"two, one of which might keep": {
			policies: []client.Object{made("a", replaces), made("b", nil)},
			want:     asked{Keep: true}, holds: 90 * time.Minute, held: true,
		},
		"two, one of which might update where people delete": {
			policies: []client.Object{made("a", replaces), made("b", updatesOnDelete)}, onDelete: true,
			want: asked{Keep: true}, holds: 90 * time.Minute, held: true,
		},
		"two such policies and the other strategy": {
			policies: []client.Object{made("a", replaces), made("b", updatesOnDelete)}, held: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := fake.NewClientBuilder().WithScheme(policyScheme(t)).WithObjects(tt.policies...).Build()
			cluster, md := groupOfPolicies()
			if tt.onDelete {
				md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			}
			got, err := policyOf(policystore.New(reader, nil), withPolicies().check)(t.Context(), cluster, md)
			if err != nil {
				t.Fatal(err)
			}
			limits := pool.LimitsOf(got, md)
			if held := limits != nil && limits.Unknown != ""; held != tt.held {
				t.Errorf("rollouts are held: %t, want %t", held, tt.held)
			}
			if limited := limits != nil; limited != (tt.held || tt.limited) {
				t.Errorf("rollouts have limits: %t", limited)
			}
			is := asked{
				Keep: pool.Keeps(got, md), UpdateOnDelete: got.UpdateOnDelete && tt.onDelete,
				Name: got.Name, HandOver: got.HandOver,
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			var holds time.Duration
			if is.Keep || is.HandOver {
				holds = got.Longest()
			}
			if holds != tt.holds {
				t.Errorf("updates hold remediation for %s, want %s", holds, tt.holds)
			}
			if diff := cmp.Diff(tt.order, got.Order); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeptByUnknown: if policies cannot be read, nothing may be decided.
func TestKeptByUnknown(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	reader := fake.NewClientBuilder().WithScheme(policyScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	}).Build()
	cluster, md := groupOfPolicies()
	exist := withPolicies().check
	if _, err := policyOf(policystore.New(reader, nil), exist)(t.Context(), cluster, md); !errors.Is(err, broken) {
		t.Errorf("MachineDeployment: error %v", err)
	}
}

// withPolicies is a plane with the CRDs of UpdatePolicies.
func withPolicies() *installation { return &installation{found: true} }

func policyScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func groupOfPolicies() (*clusterv1.Cluster, *clusterv1.MachineDeployment) {
	cluster, md := &clusterv1.Cluster{}, &clusterv1.MachineDeployment{}
	cluster.Namespace, cluster.Name = "default", "c"
	md.Namespace, md.Name = "default", "md"
	md.Spec.ClusterName = "c"
	return cluster, md
}

// laggingManager is a manager whose cache does not show yet what the API server has.
type laggingManager struct {
	ctrl.Manager
	cached, live client.Client
}

func (m laggingManager) GetClient() client.Client    { return m.cached }
func (m laggingManager) GetAPIReader() client.Reader { return m.live }
func (m laggingManager) GetEventRecorderFor(string) record.EventRecorder {
	return record.NewFakeRecorder(1)
}

// TestReplacementAsksAPIServer checks that the controller of MachineDeployments has a way to find a
// policy that the cache does not show yet, or not select the group by yet.
func TestReplacementAsksAPIServer(t *testing.T) {
	t.Parallel()
	built := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(policyScheme(t)).WithObjects(objects...).Build()
	}
	staged := made("staged", func(p *v1alpha1.UpdatePolicy) {
		p.Spec.Targets = []v1alpha1.UpdateTarget{{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}},
		}}
	})
	cluster, md := groupOfPolicies()
	labeled := cluster.DeepCopy()
	labeled.Labels = map[string]string{"stage": "prod"}
	for name, tt := range map[string]struct{ cached, live []client.Object }{
		"a new policy":             {live: []client.Object{cluster, made("a", nil)}},
		"a new label of a Cluster": {cached: []client.Object{staged}, live: []client.Object{labeled, staged}},
	} {
		mgr := laggingManager{cached: built(tt.cached...), live: built(tt.live...)}
		b := &builder{crds: withPolicies(), mgr: mgr}
		options := b.deploymentOptions()
		for what, ask := range map[string]struct {
			policy machinedeployment.PolicyOf
			keep   bool
		}{"the cache": {options.Keeps, false}, "the API server": {options.KeepsNow, true}} {
			got, err := ask.policy(t.Context(), cluster, md)
			if err != nil {
				t.Fatal(err)
			}
			if pool.Keeps(got, md) != ask.keep {
				t.Errorf("%s: by %s the group is kept: %t", name, what, !ask.keep)
			}
		}
	}
}

// TestNoReplacementWithoutCluster: if the Cluster cannot be read, nothing may be decided.
func TestNoReplacementWithoutCluster(t *testing.T) {
	t.Parallel()
	reader := fake.NewClientBuilder().WithScheme(policyScheme(t)).Build()
	cluster, md := groupOfPolicies()
	if _, err := policyNow(reader, nil, withPolicies().check)(t.Context(), cluster, md); err == nil {
		t.Error("there is no error")
	}
	if _, err := policyNow(reader, nil, noPolicies)(t.Context(), cluster, md); err != nil {
		t.Errorf("without policies the Cluster is read: %v", err)
	}
}
