package contract

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// AggregationLabel is the label of ClusterRoles whose rules the extension has, if its value is "true".
const AggregationLabel = "windlass.dev/aggregate-to-extension"

// RightsError reports that the API server forbids this process to read objects of a kind.
type RightsError struct {
	Kind schema.GroupKind
	// Verbs are what must be allowed.
	Verbs string
	// Err is the API server's answer.
	Err error
}

// Error names the missing right, and how to grant it.
func (e *RightsError) Error() string {
	return fmt.Sprintf("Windlass has no right to %s objects of kind %s in API group %s. "+
		"Fix: create a ClusterRole that allows it and has the label %s: \"true\", "+
		"as in config/samples/provider_role.yaml", e.Verbs, e.Kind.Kind, e.Kind.Group, AggregationLabel)
}

// Unwrap returns the API server's answer.
func (e *RightsError) Unwrap() error { return e.Err }

// ReadError says of which object err, the error of a live read, is. It is a [*RightsError] if the API
// server forbids the read, and nil if err is.
func ReadError(kind schema.GroupKind, key types.NamespacedName, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		err = &RightsError{Kind: kind, Verbs: "get", Err: err}
	}
	return fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
}
