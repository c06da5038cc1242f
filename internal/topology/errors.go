package topology

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A MissingClassError says that the topology uses a class that its ClusterClass does not have.
type MissingClassError struct {
	// Kind is MachineDeployment or MachinePool, Group the name in the topology.
	Kind, Class, Group string
}

func (e *MissingClassError) Error() string {
	return fmt.Sprintf("%s %q uses class %q, which the ClusterClass does not have: add the class or change the topology", e.Kind, e.Group, e.Class)
}

// An IncompatibleError says that the desired object cannot take the current one's place.
type IncompatibleError struct {
	// Current names the object, Field what may not change.
	Current, Field, From, To string
}

func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("%s cannot change its %s from %q to %q: change the ClusterClass back", e.Current, e.Field, e.From, e.To)
}

// A CreateError says why an object could not be created, without names that were generated for the attempt: the message goes into
// a condition, and one that changes at every attempt would cause the next.
type CreateError struct {
	Kind    schema.GroupKind
	Message string
	err     error
}

func (e *CreateError) Error() string { return fmt.Sprintf("creating %s: %s", e.Kind, e.Message) }

// Unwrap is the API server's error, whose message has the generated names.
func (e *CreateError) Unwrap() error { return e.err }

// sourceAddress is the near end of a connection in a message, whose port is another one each time.
var sourceAddress = regexp.MustCompile(`\S+->`)

func newCreateError(object client.Object, kind schema.GroupKind, err error) *CreateError {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// What a connection reports is different each time.
		return &CreateError{Kind: kind, Message: "the API server did not answer; details are in the log", err: err}
	}
	message := strings.ReplaceAll(status.Status().Message, object.GetName(), "(generated name)")
	for _, ref := range references(object) {
		if ref.Name != "" {
			message = strings.ReplaceAll(message, ref.Name, "(generated name)")
		}
	}
	return &CreateError{Kind: kind, Message: sourceAddress.ReplaceAllString(message, ""), err: err}
}

// references are those of a group to objects whose names were generated with its own.
func references(object client.Object) []clusterv1.ContractVersionedObjectReference {
	switch group := object.(type) {
	case *clusterv1.MachineDeployment:
		return []clusterv1.ContractVersionedObjectReference{group.Spec.Template.Spec.InfrastructureRef, group.Spec.Template.Spec.Bootstrap.ConfigRef}
	case *clusterv1.MachinePool:
		return []clusterv1.ContractVersionedObjectReference{group.Spec.Template.Spec.InfrastructureRef, group.Spec.Template.Spec.Bootstrap.ConfigRef}
	}
	return nil
}

// rejected says whether the API server certainly did not carry out a request: it answered, and blames the request. An intent that does not fit
// the schema is one of those, although the API server calls it an internal error.
func rejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err) || strings.Contains(status.Status().Message, "typed patch object")
}
