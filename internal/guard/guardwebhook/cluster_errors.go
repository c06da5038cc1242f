package guardwebhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// withVersionProblems adds our problems with the version to what Cluster API has said, unless it has refused the same field: then it has
// said that this is no version at all.
func withVersionProblems(said error, cluster *clusterv1.Cluster, problems field.ErrorList) error {
	if invalid, ok := errors.AsType[*apierrors.StatusError](said); ok && invalid.ErrStatus.Details != nil {
		for _, cause := range invalid.ErrStatus.Details.Causes {
			for _, p := range problems {
				if cause.Field == p.Field {
					return said
				}
			}
		}
	}
	return withProblems(said, clusterv1.GroupVersion.WithKind("Cluster").GroupKind(), cluster.Name, problems)
}

// withProblems adds problems to what Cluster API has said of an object, so that a person sees all at once. An answer of another kind than
// that the object is invalid says that it could not be examined; it stands alone.
func withProblems(said error, kind schema.GroupKind, name string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return said
	}
	ours := apierrors.NewInvalid(kind, name, problems)
	if said == nil {
		return ours
	}
	theirs, ok := errors.AsType[*apierrors.StatusError](said)
	if !ok || theirs.ErrStatus.Code != http.StatusUnprocessableEntity || theirs.ErrStatus.Details == nil {
		return said
	}
	all := &apierrors.StatusError{ErrStatus: *theirs.ErrStatus.DeepCopy()}
	causes := slices.Concat(all.ErrStatus.Details.Causes, ours.ErrStatus.Details.Causes)
	all.ErrStatus.Details.Causes = causes
	all.ErrStatus.Message = fmt.Sprintf("%s %q is invalid: %v", kind, name, kerrors.NewAggregate(causeErrors(causes)))
	return all
}

func causeErrors(causes []metav1.StatusCause) []error {
	list := make([]error, 0, len(causes))
	for _, cause := range causes {
		list = append(list, fmt.Errorf("%s: %s", cause.Field, cause.Message))
	}
	return list
}
