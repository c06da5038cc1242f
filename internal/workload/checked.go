package workload

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/peer"
)

// checked is a client of a workload cluster whose errors hold nothing of an answer but what a
// Status says. Decoders quote what they do not understand. It also returns a call's share in
// largeAnswers, which the call needs until its answer is decoded.
type checked struct {
	client.Client
	tenant
}

// tenant is the namespace of a cluster.
type tenant string

// do makes one call.
func (t tenant) do(ctx context.Context, call func(context.Context) error) error {
	held := &lease{namespace: string(t)}
	defer held.release()
	return checkError(call(context.WithValue(ctx, leaseKey{}, held)))
}

// checkError replaces an error that may quote an answer.
func checkError(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	if throttled, ok := errors.AsType[*ThrottledError](err); ok {
		return throttled
	}
	if garbled, ok := errors.AsType[*garbledError](err); ok {
		return garbled
	}
	if tooLong, ok := errors.AsType[*peer.TooLongError](err); ok {
		return &garbledError{problem: tooLong.Error()}
	}
	if redirect, ok := errors.AsType[*peer.RedirectError](err); ok {
		return &garbledError{problem: redirect.Error()}
	}
	if connection, ok := errors.AsType[*url.Error](err); ok {
		return connection
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return fmt.Errorf("no complete answer in time: %w", ended)
		}
	}
	if isBroken(err) {
		return &garbledError{problem: "the connection ended before the answer was complete"}
	}
	return &garbledError{problem: "the answer is not one of an API server; is another program at this address?"}
}

// Get implements client.Client.
func (c checked) Get(ctx context.Context, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.Get(ctx, key, object, o...) })
}

// List implements client.Client.
func (c checked) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.List(ctx, list, o...) })
}

// Create implements client.Client.
func (c checked) Create(ctx context.Context, object client.Object, o ...client.CreateOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.Create(ctx, object, o...) })
}

// Update implements client.Client.
func (c checked) Update(ctx context.Context, object client.Object, o ...client.UpdateOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.Update(ctx, object, o...) })
}

// Patch implements client.Client.
func (c checked) Patch(ctx context.Context, object client.Object, patch client.Patch, o ...client.PatchOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.Patch(ctx, object, patch, o...) })
}

// Apply implements client.Client.
func (c checked) Apply(ctx context.Context, object runtime.ApplyConfiguration, o ...client.ApplyOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.Apply(ctx, object, o...) })
}

// Delete implements client.Client.
func (c checked) Delete(ctx context.Context, object client.Object, o ...client.DeleteOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.Delete(ctx, object, o...) })
}

// DeleteAllOf implements client.Client.
func (c checked) DeleteAllOf(ctx context.Context, object client.Object, o ...client.DeleteAllOfOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Client.DeleteAllOf(ctx, object, o...) })
}

// Status implements client.Client.
func (c checked) Status() client.StatusWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c checked) SubResource(name string) client.SubResourceClient {
	return checkedSubResource{c.Client.SubResource(name), c.tenant}
}

// checkedSubResource is checked for a subresource.
type checkedSubResource struct {
	client.SubResourceClient
	tenant
}

// Get implements client.SubResourceClient.
func (c checkedSubResource) Get(ctx context.Context, object, sub client.Object, o ...client.SubResourceGetOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Get(ctx, object, sub, o...) })
}

// Create implements client.SubResourceClient.
func (c checkedSubResource) Create(ctx context.Context, object, sub client.Object, o ...client.SubResourceCreateOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Create(ctx, object, sub, o...) })
}

// Update implements client.SubResourceClient.
func (c checkedSubResource) Update(ctx context.Context, object client.Object, o ...client.SubResourceUpdateOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Update(ctx, object, o...) })
}

// Patch implements client.SubResourceClient.
func (c checkedSubResource) Patch(ctx context.Context, object client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Patch(ctx, object, patch, o...) })
}

// Apply implements client.SubResourceClient.
func (c checkedSubResource) Apply(ctx context.Context, object runtime.ApplyConfiguration, o ...client.SubResourceApplyOption) error {
	return c.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Apply(ctx, object, o...) })
}
