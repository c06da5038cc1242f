package approvecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// approver changes what holds a Cluster's upgrade.
type approver struct {
	client client.Client
	config *rest.Config
	held   held
	out    io.Writer
	now    time.Time
}

// approve approves steps. chosen says that the user has said which ones; else there must be one only. why is why there are none.
func (a approver) approve(ctx context.Context, steps []heldStep, chosen bool, why string) error {
	missing := slices.DeleteFunc(slices.Clone(steps), func(s heldStep) bool { return s.approved })
	switch {
	case len(steps) == 0:
		return cli.Refusedf("%s; see windlass approve %s -n %s --list", why, a.held.cluster.Name, a.held.cluster.Namespace)
	case len(missing) > 1 && !chosen:
		return chooseError(missing, "--gate, --step or --all-pending")
	}
	by := ""
	if len(missing) > 0 {
		by = a.whoAmI(ctx)
	}
	for _, s := range steps {
		if s.approved {
			fmt.Fprintf(a.out, "Approved already: %s, %s\n", s, s.author())
			continue
		}
		err := a.changeApprovals(ctx, s.gate, func(g *v1alpha1.UpgradeGate) ([]v1alpha1.GateApprovalRecord, error) {
			if g.Generation != s.generation {
				return nil, errors.New("it has been changed just now; look at it, and approve again")
			}
			return gate.ComputeApproved(g, a.held.key(), s.step, by, a.now), nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "Approved: %s; it counts when the gate is asked next, within a minute\n", s)
	}
	return nil
}

// revoke takes approvals back.
func (a approver) revoke(ctx context.Context, steps []heldStep, chosen bool) error {
	switch {
	case len(steps) == 0:
		return cli.Refusedf("no such approval is there; see windlass approve %s -n %s --list", a.held.cluster.Name, a.held.cluster.Namespace)
	case len(steps) > 1 && !chosen:
		return chooseError(steps, "--gate or --step")
	}
	for _, s := range steps {
		err := a.changeApprovals(ctx, s.gate, func(g *v1alpha1.UpgradeGate) ([]v1alpha1.GateApprovalRecord, error) {
			return gate.ComputeRevoked(g.Status.Approvals, a.held.key(), s.step), nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "Revoked: %s\n", s)
	}
	return nil
}

func chooseError(steps []heldStep, flags string) error {
	words := make([]string, 0, len(steps))
	for _, s := range steps {
		words = append(words, "  "+s.String())
	}
	return fmt.Errorf("there are several. Fix: choose with %s:\n%s", flags, strings.Join(words, "\n"))
}

// changeApprovals writes the approvals of a gate. Others write its status at the same time.
func (a approver) changeApprovals(ctx context.Context, name string, change func(*v1alpha1.UpgradeGate) ([]v1alpha1.GateApprovalRecord, error)) error {
	key := types.NamespacedName{Namespace: a.held.cluster.Namespace, Name: name}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var current v1alpha1.UpgradeGate
		if err := a.client.Get(ctx, key, &current); err != nil {
			return err
		}
		wanted := current.DeepCopy()
		approvals, err := change(&current)
		if err != nil {
			return err
		}
		wanted.Status.Approvals = approvals
		sent := wanted.DeepCopy()
		if err := a.client.Status().Patch(ctx, wanted, client.MergeFromWithOptions(&current, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
		return refusal.CheckStored(sent, wanted)
	})
	if err != nil {
		return fmt.Errorf("writing the approvals of UpgradeGate %s: %w", key, err)
	}
	return nil
}

// whoAmI asks the API server for the name of the user. It is for people who look at the approval later, so that it may be missing.
func (a approver) whoAmI(ctx context.Context) string {
	c, err := authenticationclient.NewForConfig(a.config)
	if err != nil {
		return ""
	}
	review, err := c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// removeAnnotation takes away one annotation that holds an upgrade before it begins.
func (a approver) removeAnnotation(ctx context.Context, name string) error {
	key := name
	if !strings.HasPrefix(name, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
		key = clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/" + name
	}
	value, ok := a.held.cluster.Annotations[key]
	if !ok {
		return cli.Refusedf("Cluster %s/%s has no annotation %s", a.held.cluster.Namespace, a.held.cluster.Name, key)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: nil}}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := a.client.Patch(ctx, a.held.cluster.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("taking away the annotation %s: %w", key, err)
	}
	fmt.Fprintf(a.out, "Taken away: annotation %s, which was %q\n", key, value)
	return nil
}
