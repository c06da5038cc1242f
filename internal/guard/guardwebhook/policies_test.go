package guardwebhook_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
)

// copying counts the lists of UpdatePolicies that a cache would answer with a copy of each.
type copying struct {
	client.Reader
	lists, copies atomic.Int32
}

func (c *copying) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*v1alpha1.UpdatePolicyList); ok {
		c.lists.Add(1)
		if o := (&client.ListOptions{}).ApplyOptions(options); o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
			c.copies.Add(1)
		}
	}
	return c.Reader.List(ctx, list, options...)
}

// TestReviewsCopyNoPolicies holds that reviews at once do not multiply the policies of a namespace,
// which a tenant can make as large as etcd takes.
func TestReviewsCopyNoPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reader := &copying{Reader: w.client}
	w.options.Policies = policystore.New(reader, new(policy.Store))
	w.guard = guardwebhook.NewGuard(w.options)
	var reviews sync.WaitGroup
	for i := range 16 {
		reviews.Go(func() { w.ask(admissionv1.Create, numbered(i)) })
	}
	reviews.Wait()
	if reader.lists.Load() != 16 || reader.copies.Load() != 0 {
		t.Errorf("of %d lists of UpdatePolicies, want 16, %d copied them", reader.lists.Load(), reader.copies.Load())
	}
}

// TestReviewWithoutNamespace holds that a forged review without a namespace is refused before anything
// is read. A list without a namespace returns the policies of all tenants.
func TestReviewWithoutNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reader := &copying{Reader: w.client}
	w.options.Policies = policystore.New(reader, new(policy.Store))
	w.guard = guardwebhook.NewGuard(w.options)
	for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Delete} {
		response := w.guard.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: operation, Name: "m",
		}})
		if response.Allowed || response.Result.Code != http.StatusBadRequest {
			t.Errorf("%s: allowed %t, result %v", operation, response.Allowed, response.Result)
		}
	}
	if n := reader.lists.Load() + int32(w.reads); n != 0 {
		t.Errorf("%d reads before the refusal, want none", n)
	}
}
