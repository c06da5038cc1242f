package updatepolicy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

func updater(name string, order int32) v1alpha1.Updater {
	return v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.UpdaterSpec{Order: order, InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{Channel: "{minor}-classic/stable"}}},
	}
}

func updaterNames(updaters []v1alpha1.Updater) []string {
	var found []string
	for _, u := range updaters {
		found = append(found, u.Name)
	}
	return found
}

func TestSelectUpdaters(t *testing.T) {
	t.Parallel()
	gpu, prod, both, negative := updater("gpu", 5), updater("prod", 5), updater("both", 1), updater("negative", -1)
	gpu.Spec.Selector = labelled("hardware", "gpu")
	prod.Spec.NamespaceSelector = labelled("stage", "prod")
	both.Spec.Selector, both.Spec.NamespaceSelector = gpu.Spec.Selector, prod.Spec.NamespaceSelector
	negative.Spec.Selector = &metav1.LabelSelector{}
	all := []v1alpha1.Updater{updater("z", 0), updater("a", 0), gpu, prod, both, negative}
	for name, tt := range map[string]struct {
		namespace, machine map[string]string
		want               []string
	}{
		"neither":   {want: []string{"negative", "a", "z"}},
		"machine":   {machine: map[string]string{"hardware": "gpu"}, want: []string{"negative", "a", "z", "gpu"}},
		"namespace": {namespace: map[string]string{"stage": "prod"}, want: []string{"negative", "a", "z", "prod"}},
		"both":      {machine: map[string]string{"hardware": "gpu"}, namespace: map[string]string{"stage": "prod"}, want: []string{"negative", "a", "z", "both", "gpu", "prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := (&v1alpha1.UpdaterList{Items: all}).DeepCopy().Items
			got, err := updatepolicy.SelectUpdaters(all, tt.namespace, tt.machine)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, updaterNames(got)); diff != "" {
				t.Errorf("SelectUpdaters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, all); diff != "" {
				t.Errorf("SelectUpdaters changed its input (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSelectUpdatersErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.UpdaterSpec)
		// want is the whole message; empty where the Updater cannot be meant.
		want string
	}{
		"a selector": {
			edit: func(s *v1alpha1.UpdaterSpec) { s.Selector = broken() },
			want: `Updater "u" cannot be used: spec.selector: Invalid value: "Is" is not a valid label selector operator`,
		},
		"a selector of namespaces": {
			edit: func(s *v1alpha1.UpdaterSpec) { s.NamespaceSelector = broken() },
			want: `Updater "u" cannot be used: spec.namespaceSelector: Invalid value: "Is" is not a valid label selector operator`,
		},
		"a selector, of other namespaces": {edit: func(s *v1alpha1.UpdaterSpec) { s.Selector, s.NamespaceSelector = broken(), labelled("no", "such") }},
		"k8sd without k8sd":               {edit: func(s *v1alpha1.UpdaterSpec) { s.InProcess.K8sd = nil }, want: `Updater "u" cannot be used: spec.inProcess: Required value: set k8sd where kind is K8sd, and only there`},
		"k8sd for another":                {edit: func(s *v1alpha1.UpdaterSpec) { s.InProcess.Kind = v1alpha1.KubeadmUpdater }, want: `Updater "u" cannot be used: spec.inProcess: Required value: set k8sd where kind is K8sd, and only there`},
		"neither kind":                    {edit: func(s *v1alpha1.UpdaterSpec) { s.InProcess = nil }, want: `Updater "u" cannot be used: spec: Required value: set exactly one of inProcess and remote`},
		"both kinds": {
			edit: func(s *v1alpha1.UpdaterSpec) { s.Remote = &v1alpha1.RemoteUpdater{URL: "https://x"} },
			want: `Updater "u" cannot be used: spec: Required value: set exactly one of inProcess and remote`,
		},
		"a remote one without address": {
			edit: func(s *v1alpha1.UpdaterSpec) { s.InProcess, s.Remote = nil, &v1alpha1.RemoteUpdater{} },
			want: `Updater "u" cannot be used: spec.remote: Required value: set exactly one of url and service`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := updater("u", 0)
			tt.edit(&u.Spec)
			got, err := updatepolicy.SelectUpdaters([]v1alpha1.Updater{u}, nil, nil)
			if errorText(err) != tt.want || len(got) != 0 {
				t.Errorf("SelectUpdaters = %v, %v, want error %s", got, err, tt.want)
			}
			if invalid := (*policy.InvalidError)(nil); err != nil && !errors.As(err, &invalid) {
				t.Errorf("error is a %T", err)
			}
		})
	}
}

func TestMinorLimit(t *testing.T) {
	t.Parallel()
	limited := func(limits ...int32) []v1alpha1.Updater {
		var updaters []v1alpha1.Updater
		for _, l := range limits {
			u := updater("u", 0)
			u.Spec.Transitions.MaxMinors = l
			updaters = append(updaters, u)
		}
		return updaters
	}
	for _, tt := range []struct {
		limits []int32
		want   int
	}{{nil, 0}, {[]int32{0}, 0}, {[]int32{1}, 1}, {[]int32{1, 3, 2}, 3}, {[]int32{1, 0, 2}, 0}} {
		if got := updatepolicy.MinorLimit(limited(tt.limits...)); got != tt.want {
			t.Errorf("MinorLimit(%v) = %d, want %d", tt.limits, got, tt.want)
		}
	}
}

// TestSelectUpdatersOrder holds that neither the order of the list nor an Updater for other machines matters.
func TestSelectUpdatersOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfNDistinct(rapid.StringMatching("[a-c]{1,3}"), 0, 8, rapid.ID[string]).Draw(t, "names")
		list := make([]v1alpha1.Updater, 0, len(drawn))
		for _, name := range drawn {
			list = append(list, updater(name, rapid.Int32Range(-1, 1).Draw(t, "order")))
		}
		want, err := updatepolicy.SelectUpdaters(list, nil, nil)
		if err != nil || len(want) != len(list) {
			t.Fatalf("SelectUpdaters = %v, %v, want %d", want, err, len(list))
		}
		other := updater("other", 0)
		other.Spec.Selector = labelled("no", "such")
		got, err := updatepolicy.SelectUpdaters(rapid.Permutation(append(list, other)).Draw(t, "shuffled"), nil, nil)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("SelectUpdaters: %v (-want +got):\n%s", err, diff)
		}
	})
}

// TestMayServe holds that a name on a record opens no Updater whose selectors, or whose group's policy, exclude the Machine.
func TestMayServe(t *testing.T) {
	t.Parallel()
	selective := updater("u", 0)
	selective.Spec.NamespaceSelector, selective.Spec.Selector = labelled("tenant", "a"), labelled("hardware", "gpu")
	garbled, invalid := updater("u", 0), updater("u", 0)
	garbled.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tenant", Operator: "Like"}}}
	invalid.Spec.InProcess = nil
	tenant, gpu := map[string]string{"tenant": "a"}, map[string]string{"hardware": "gpu"}
	for name, tt := range map[string]struct {
		updater            v1alpha1.Updater
		policy             policy.Policy
		namespace, machine map[string]string
		want               string
	}{
		"no selectors":              {updater: updater("u", 0)},
		"both match":                {updater: selective, namespace: tenant, machine: gpu},
		"another namespace":         {updater: selective, namespace: map[string]string{"tenant": "b"}, machine: gpu, want: "spec.namespaceSelector"},
		"another machine":           {updater: selective, namespace: tenant, want: "spec.selector"},
		"a garbled selector":        {updater: garbled, namespace: tenant, want: "cannot be used"},
		"no kind":                   {updater: invalid, want: "cannot be used"},
		"no policy":                 {updater: updater("u", 0), policy: policy.Default()},
		"a policy that updates":     {updater: updater("u", 0), policy: policy.Policy{Name: "p", InPlace: true}},
		"a policy that replaces":    {updater: updater("u", 0), policy: policy.Policy{Name: "p"}, want: "RollingUpdate"},
		"selectors beat the policy": {updater: selective, policy: policy.Policy{Name: "p", InPlace: true}, want: "spec.namespaceSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := updatepolicy.MayServe(&tt.updater, tt.policy, tt.namespace, tt.machine)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("MayServe: %v, want %q", err, tt.want)
			}
		})
	}
}
