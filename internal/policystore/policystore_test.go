package policystore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
)

// cache copies what it lists unless it is told not to, as the cache of controller-runtime does.
type cache struct {
	client.Reader
	items  []v1alpha1.UpdatePolicy
	copies atomic.Int32
	lists  atomic.Int32
	err    error
}

func (c *cache) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	c.lists.Add(1)
	list, ok := into.(*v1alpha1.UpdatePolicyList)
	if !ok || c.err != nil {
		return c.err
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	for i := range c.items {
		p := c.items[i]
		if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
			c.copies.Add(1)
			p = *p.DeepCopy()
		}
		if p.Namespace == o.Namespace {
			list.Items = append(list.Items, p)
		}
	}
	return nil
}

func large(n int) []v1alpha1.UpdatePolicy {
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprintf("v%061d", i))
	}
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: values},
	}}
	items := make([]v1alpha1.UpdatePolicy, 0, n)
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		items = append(items, v1alpha1.UpdatePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, UID: types.UID(name), ResourceVersion: "1", Generation: 1},
			Spec: v1alpha1.UpdatePolicySpec{
				Strategy: v1alpha1.ExternalUpdate, Targets: []v1alpha1.UpdateTarget{{Selector: selector}},
			},
		})
	}
	return items
}

// TestReadsShare holds that requests at once about a namespace share its policies, which a tenant can
// make as large as etcd takes: nothing is copied, and each is compiled once.
func TestReadsShare(t *testing.T) {
	t.Parallel()
	reader := &cache{items: large(10)}
	policies := policystore.New(reader, new(policy.Store))
	group := policy.Group{Namespace: "tenant", Cluster: "c", Object: "md"}
	var all sync.WaitGroup
	sets := make([]policy.Set, 16)
	for i := range sets {
		all.Go(func() {
			var err error
			if sets[i], err = policies.In(t.Context(), "tenant"); err != nil {
				t.Error(err)
			}
			// A policy that is too large fails closed: it may be meant for every group.
			if _, err := sets[i].Select(group); err == nil || !strings.Contains(err.Error(), "at most 256 are allowed") {
				t.Errorf("selecting: %v", err)
			}
		})
	}
	all.Wait()
	if n := reader.copies.Load(); n != 0 {
		t.Errorf("%d policies were copied", n)
	}
	for _, set := range sets {
		for i := range set {
			if len(set) != 10 || set[i] != sets[0][i] {
				t.Fatal("a policy was compiled again")
			}
		}
	}
	reader.items[3].Generation, reader.items[3].ResourceVersion = 2, "2"
	changed, err := policies.In(t.Context(), "tenant")
	if err != nil || changed[3] == sets[0][3] || changed[4] != sets[0][4] {
		t.Errorf("after an edit of one: %v", err)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := policystore.New(&cache{err: broken}, nil).In(t.Context(), "tenant")
	if !errors.Is(err, broken) || err.Error() != "listing UpdatePolicies in tenant: broken" {
		t.Errorf("error is %v", err)
	}
}

// TestNoNamespace holds that a read without a namespace, which would list those of all tenants, reads
// nothing.
func TestNoNamespace(t *testing.T) {
	t.Parallel()
	reader := &cache{}
	_, err := policystore.New(reader, nil).In(t.Context(), "")
	if n := reader.lists.Load(); !errors.Is(err, policystore.ErrNoNamespace) || n != 0 {
		t.Errorf("after %d lists, error is %v", n, err)
	}
}
