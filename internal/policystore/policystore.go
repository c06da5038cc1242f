// Package policystore reads the UpdatePolicies of a namespace, compiled. It reads without a copy where
// the reader is a cache, and compiles a policy once for each of its versions, so that neither the size
// nor the number of requests about a namespace multiplies what its policies cost.
package policystore

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

// ErrNoNamespace is the error of a read without a namespace. A list would return the policies of all
// namespaces, which nobody needs together.
var ErrNoNamespace = errors.New("listing UpdatePolicies: no namespace is given. Fix: name the namespace")

// Policies reads UpdatePolicies. It is safe for concurrent use.
type Policies struct {
	reader client.Reader
	store  *policy.Store
}

// New returns Policies that are read from reader. All of a process share a store; a nil one keeps
// nothing.
func New(reader client.Reader, store *policy.Store) Policies {
	return Policies{reader: reader, store: store}
}

// In returns the policies of a namespace, and errors as Objects does. They are shared: nobody may
// change them.
func (p Policies) In(ctx context.Context, namespace string) (policy.Set, error) {
	_, compiled, err := p.Objects(ctx, namespace)
	return compiled, err
}

// Objects returns the policies of a namespace, and the same compiled. Both are shared with the cache:
// nobody may change them. Without a namespace it reads nothing and returns [ErrNoNamespace].
func (p Policies) Objects(ctx context.Context, namespace string) ([]v1alpha1.UpdatePolicy, policy.Set, error) {
	if namespace == "" {
		return nil, nil, ErrNoNamespace
	}
	var list v1alpha1.UpdatePolicyList
	if err := p.reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing UpdatePolicies in %s: %w", namespace, err)
	}
	return list.Items, p.store.Compile(namespace, list.Items), nil
}
