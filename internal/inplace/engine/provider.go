package engine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// kindOf returns a kind in the API version in which Cluster API reads and sends its objects. No
// request and no owner reference chooses the version. The error is an *UnaskedError if no version
// keeps Cluster API's contract, because then Cluster API calls no hook about such objects.
func (e *Engine) kindOf(ctx context.Context, kind schema.GroupKind) (schema.GroupVersionKind, error) {
	if kind.Group == clusterv1.GroupVersion.Group {
		return clusterv1.GroupVersion.WithKind(kind.Kind), nil
	}
	apiVersion, err := contract.FetchAPIVersion(ctx, e.Client, kind)
	_, isUndeclared := errors.AsType[*contract.NotDeclaredError](err)
	switch {
	case isUndeclared || apierrors.IsNotFound(err):
		return schema.GroupVersionKind{}, unasked(KindUnknown, "%v", err)
	case err != nil:
		return schema.GroupVersionKind{}, fmt.Errorf("finding the API version of %s: %w", kind, err)
	}
	return schema.FromAPIVersionAndKind(apiVersion, kind.Kind), nil
}

// ReadProvided reads an object of a kind that a tenant chose into object, which is unstructured or
// metadata. It reads from the API server, because a cache of the kind may never sync. The error is a
// *RefusedError if the right to read the object is missing.
func (e *Engine) ReadProvided(
	ctx context.Context, kind schema.GroupKind, key types.NamespacedName, object client.Object,
) error {
	gvk, err := e.kindOf(ctx, kind)
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	err = e.Live.Get(ctx, key, object)
	if meta.IsNoMatchError(err) {
		return unasked(KindUnknown, "the API server does not serve %s", gvk)
	}
	err = contract.ReadError(kind, key, err)
	if rights, ok := errors.AsType[*contract.RightsError](err); ok {
		return refused(v1alpha1.RightsMissingReason, "%v", rights)
	}
	return err
}

// ReadReferenced reads what a reference names; nil if the reference is empty.
func (e *Engine) ReadReferenced(
	ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference,
) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil //nolint:nilnil // There is no such object, which is no error.
	}
	object := &unstructured.Unstructured{}
	err := e.ReadProvided(ctx, ref.GroupKind(), types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
	return object, err
}

// showMissingRights shows on a Machine that Cluster API has marked which right its update lacks, if
// that is what err says, and returns err.
func (e *Engine) showMissingRights(ctx context.Context, m *clusterv1.Machine, err error) error {
	if r, ok := errors.AsType[*RefusedError](err); ok && r.Reason == v1alpha1.RightsMissingReason {
		(&run{Machine: Machine{Engine: e, Object: m}}).showBlocked(ctx, r.Reason, cut(r.Message))
	}
	return err
}

// checkSent returns an *UnaskedError unless an object in a request is of this kind, in this API
// version.
func checkSent(sent runtime.RawExtension, want schema.GroupVersionKind, reason string) error {
	var got struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	err := untrusted.Object.Unmarshal(rawJSON(sent), &got)
	if limit, ok := errors.AsType[*untrusted.LimitError](err); ok {
		return unasked(reason, "the %s in the request is too large: %v", want.Kind, limit)
	}
	if err != nil {
		return unasked(reason, "the request has no %s that can be read", want.Kind)
	}
	if gvk := schema.FromAPIVersionAndKind(got.APIVersion, got.Kind); gvk != want {
		return unasked(reason, "the request has a %s where Cluster API sends a %s", cut(gvk.String()), want)
	}
	return nil
}
