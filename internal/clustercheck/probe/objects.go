package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/workload"
)

// removedAPIs looks for uses of APIs that the upgrade removes.
func (s scout) removedAPIs(ctx context.Context) {
	var requested []gate.API
	err := s.within(ctx, "the metrics of the API server", func(ctx context.Context) (err error) {
		requested, err = s.o.Requested(ctx)
		return err
	})
	s.judge(preflight.RemovedAPIsRequested, err, func() []clustercheck.Finding {
		return preflight.CheckRequested(s.o.Upgrade, requested)
	})
	var writes []preflight.Write
	read := 0
	err = s.within(ctx, "managedFields", func(ctx context.Context) (err error) {
		writes, read, err = s.readWrites(ctx)
		return err
	})
	s.judge(preflight.RemovedAPIsManaged, err, func() []clustercheck.Finding {
		return preflight.CheckManaged(s.o.Upgrade, writes, read)
	})
	s.manifests()
}

// readWrites reads the managedFields of all kinds that lose a version with the upgrade, and returns the writes through
// such versions, and the number of objects. Kinds that lose none are not read.
func (s scout) readWrites(ctx context.Context) (writes []preflight.Write, read int, err error) {
	removals := s.o.Upgrade.Removals()
	if len(removals) == 0 {
		return nil, 0, nil
	}
	lists, err := within(ctx, s.Remote.Discovery().ServerPreferredResources)
	if _, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); err != nil && !partly {
		return nil, 0, fmt.Errorf("discovering the API groups: %w", err)
	}
	for _, list := range lists {
		served, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			kind := schema.GroupKind{Group: served.Group, Kind: resource.Kind}
			if !slices.Contains(resource.Verbs, "list") || !slices.ContainsFunc(removals, func(r preflight.Removal) bool { return r.Kind.GroupKind() == kind }) {
				continue
			}
			found, n, err := s.readKind(ctx, served.WithResource(resource.Name), resource.Kind)
			if err != nil {
				return nil, 0, fmt.Errorf("listing %s: %w", resource.Name, err)
			}
			writes, read = append(writes, found...), read+n
		}
	}
	return writes, read, nil
}

// metadataOnly makes an API server omit spec and status.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

const (
	metadataPerPage = 200
	// definitionsPerPage keeps a page below the bound of an answer, with definitions of 1.5 MiB.
	definitionsPerPage = 10
	// maxDefinitions bounds the CustomResourceDefinitions.
	maxDefinitions = 5000
)

func (s scout) readKind(ctx context.Context, resource schema.GroupVersionResource, kind string) (writes []preflight.Write, read int, err error) {
	err = eachPage(ctx, metadataPerPage, maxObjects, func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, int, error) {
		page := &metav1.PartialObjectMetadataList{}
		if err := s.list(ctx, resource, metadataOnly, o, page); err != nil {
			return nil, 0, err
		}
		for i := range page.Items {
			writes = append(writes, writesOf(&page.Items[i], resource.Group, kind)...)
		}
		read += len(page.Items)
		return page, len(page.Items), nil
	})
	return writes, read, err
}

// writesOf returns the writes that managedFields of an object record.
func writesOf(object *metav1.PartialObjectMetadata, group, kind string) []preflight.Write {
	var writes []preflight.Write
	for _, entry := range object.ManagedFields {
		through, err := schema.ParseGroupVersion(entry.APIVersion)
		if err != nil || through.Group != group {
			continue
		}
		w := preflight.Write{Kind: through.WithKind(kind), Namespace: object.Namespace, Name: object.Name, Manager: entry.Manager}
		if entry.Time != nil {
			w.Time = entry.Time.Time
		}
		writes = append(writes, w)
	}
	return writes
}

// list reads a page of a resource of all namespaces.
func (s scout) list(ctx context.Context, r schema.GroupVersionResource, accept string, o metav1.ListOptions, into any) error {
	path := []string{"/apis", r.Group, r.Version, r.Resource}
	if r.Group == "" {
		path = []string{"/api", r.Version, r.Resource}
	}
	request := s.Remote.Discovery().RESTClient().Get().AbsPath(path...).SetHeader("Accept", accept).Param("limit", fmt.Sprint(o.Limit))
	if o.Continue != "" {
		request = request.Param("continue", o.Continue)
	}
	answer, err := request.DoRaw(ctx)
	if err != nil {
		return withStatus(answer, err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer is no list of %s", r.Resource)
	}
	return nil
}

// withStatus returns the error that an API server wrote in its answer, and otherwise err. client-go
// does not decode the answers of raw requests: it reports "unknown" for them.
func withStatus(answer []byte, err error) error {
	status := metav1.Status{}
	_, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered || json.Unmarshal(answer, &status) != nil || status.Message == "" {
		return err
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// definitions is a page of CustomResourceDefinitions without their schemas.
type definitions struct {
	metav1.ListMeta `json:"metadata"`
	Items           []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Conversion struct {
				Webhook struct {
					ClientConfig struct {
						CABundle []byte `json:"caBundle"`
					} `json:"clientConfig"`
				} `json:"webhook"`
			} `json:"conversion"`
			Versions []struct {
				Name       string `json:"name"`
				Served     bool   `json:"served"`
				Deprecated bool   `json:"deprecated"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			StoredVersions []string `json:"storedVersions"`
		} `json:"status"`
	} `json:"items"`
}

// storedVersions judges CustomResourceDefinitions, and returns the CAs of their conversion webhooks.
// The error is why some could not be read.
func (s scout) storedVersions(ctx context.Context) (bundles []workload.Certificate, err error) {
	var found []preflight.Definition
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	err = s.within(ctx, "CustomResourceDefinitions", func(ctx context.Context) error {
		return eachPage(ctx, definitionsPerPage, maxDefinitions, func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, int, error) {
			page := &definitions{}
			if err := s.list(ctx, crds, "application/json", o, page); err != nil {
				return nil, 0, err
			}
			for _, item := range page.Items {
				d := preflight.Definition{Name: item.Metadata.Name, Stored: item.Status.StoredVersions}
				for _, v := range item.Spec.Versions {
					if v.Served {
						d.Served = append(d.Served, v.Name)
					}
					if v.Deprecated {
						d.Deprecated = append(d.Deprecated, v.Name)
					}
				}
				found = append(found, d)
				bundles = append(bundles, newestOf("CustomResourceDefinition "+d.Name, item.Spec.Conversion.Webhook.ClientConfig.CABundle)...)
			}
			return page, len(page.Items), nil
		})
	})
	s.judge(preflight.StoredVersions, err, func() []clustercheck.Finding { return preflight.CheckStored(found) })
	return bundles, err
}

// budgets judges PodDisruptionBudgets.
func (s scout) budgets(ctx context.Context, pods []preflight.Workload, unlisted error) {
	var found []preflight.Budget
	err := s.within(ctx, "PodDisruptionBudgets", func(ctx context.Context) error {
		return eachPage(ctx, podsPerPage, maxObjects, func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, int, error) {
			page, err := s.Remote.PolicyV1().PodDisruptionBudgets("").List(ctx, o)
			if err != nil {
				return nil, 0, err
			}
			for i := range page.Items {
				b := &page.Items[i]
				selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
				if err != nil {
					selector = labels.Nothing()
				}
				found = append(found, preflight.Budget{
					Budget: workload.NewBudget(b), Selector: selector, Allowed: b.Status.DisruptionsAllowed, Healthy: b.Status.CurrentHealthy,
					AlwaysAllow: allowsUnhealthy(b),
				})
			}
			return page, len(page.Items), nil
		})
	})
	s.judge(preflight.BudgetsCanBeSatisfied, err, func() []clustercheck.Finding {
		return preflight.CheckBudgets(preflight.Disruptions{
			Budgets: found, Pods: pods, DrainTimeouts: drainTimeouts(s.Machines), Accepted: s.o.Settings.Accepted,
			Now: s.Now,
		})
	})
	s.judge(preflight.BudgetsOverlap, cmp.Or(err, unlisted), func() []clustercheck.Finding {
		return preflight.CheckOverlap(found, pods)
	})
}

// allowsUnhealthy reports whether a budget lets Pods go that are not healthy, whether it is met or not.
func allowsUnhealthy(b *policyv1.PodDisruptionBudget) bool {
	set := b.Spec.UnhealthyPodEvictionPolicy
	return set != nil && *set == policyv1.AlwaysAllow
}

// drainTimeouts returns those of Machines by their Nodes; 0 for none.
func drainTimeouts(machines []*clusterv1.Machine) map[string]int32 {
	timeouts := make(map[string]int32, len(machines))
	for _, m := range machines {
		var seconds int32
		if timeout := m.Spec.Deletion.NodeDrainTimeoutSeconds; timeout != nil {
			seconds = *timeout
		}
		if m.Status.NodeRef.Name != "" {
			timeouts[m.Status.NodeRef.Name] = seconds
		}
	}
	return timeouts
}

// exists reports whether an object that was read exists. The error is nil if it does not.
func exists(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
