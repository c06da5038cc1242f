package topology

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errRepaired ends a run whose objects are not any more as they were read.
var errRepaired = errors.New("managed fields were repaired")

// repairOwnership gives objects the managed fields back that the API server has lost, before anything is applied to them.
func (r *run) repairOwnership(ctx context.Context) error {
	result, err := r.objects.RepairOwnership(ctx, r.current)
	for _, change := range result.Changes {
		r.awaitCache(change)
	}
	if err == nil && len(result.Changes) > 0 {
		return errRepaired
	}
	return err
}

// outdated reports whether a run ended because what it had read is not so any more: it begins anew, and there is nothing to say about it.
func outdated(err error) bool { return apierrors.IsConflict(err) || errors.Is(err, errRepaired) }
