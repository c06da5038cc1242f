package probe

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/workload"
)

const (
	configurationsPerPage = 50
	// maxConfigurations bounds the webhook configurations of a kind.
	maxConfigurations = 5000
	// slicesPerPage is how many EndpointSlices of a Service are read at once; one has up to 1,000
	// endpoints.
	slicesPerPage = 20
)

// webhooks judges StoredVersions and webhooks, and returns the CAs that the API server trusts for
// webhooks. The error is why some could not be read.
func (s scout) webhooks(ctx context.Context) ([]workload.Certificate, error) {
	bundles, unread := s.storedVersions(ctx)
	var found []preflight.Webhook
	var backends map[types.NamespacedName]preflight.Backend
	var spaces map[string]labels.Set
	err := s.within(ctx, "webhook configurations", func(ctx context.Context) error {
		trusted, err := s.readWebhooks(ctx, &found)
		bundles, unread = append(bundles, trusted...), firstOf(unread, err)
		if err == nil {
			spaces, err = s.readSpaces(ctx, found)
		}
		return err
	})
	if err == nil {
		err = s.within(ctx, "the endpoints of webhooks", func(ctx context.Context) (err error) {
			backends, err = s.readBackends(ctx, found, spaces)
			return err
		})
	}
	s.judge(preflight.WebhookBackends, err, func() []clustercheck.Finding {
		return preflight.CheckBackends(found, backends, spaces)
	})
	s.judge(preflight.WebhookScope, err, func() []clustercheck.Finding {
		return preflight.CheckScope(s.o.Upgrade, found, spaces)
	})
	return bundles, unread
}

// readWebhooks reads all webhooks, and returns the CAs by which the API server trusts those that
// must answer.
func (s scout) readWebhooks(
	ctx context.Context, found *[]preflight.Webhook,
) (bundles []workload.Certificate, err error) {
	registration := s.Remote.AdmissionregistrationV1()
	add := func(kind, configuration string, w admissionregistrationv1.ValidatingWebhook) {
		webhook := preflight.Webhook{
			Kind: kind, Configuration: configuration, Name: w.Name,
			FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, Rules: w.Rules,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
			Conditional: len(w.MatchConditions) > 0,
		}
		if c := w.ClientConfig.Service; c != nil {
			webhook.Service = types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		}
		*found = append(*found, webhook)
		if webhook.MustAnswer() {
			object := kind + " " + configuration
			bundles = append(bundles, newestOf(object, w.ClientConfig.CABundle)...)
		}
	}
	err = eachPage(ctx, configurationsPerPage, maxConfigurations, func(
		ctx context.Context, o metav1.ListOptions,
	) (metav1.ListInterface, int, error) {
		page, err := registration.ValidatingWebhookConfigurations().List(ctx, o)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range page.Items {
			for _, w := range c.Webhooks {
				add("ValidatingWebhookConfiguration", c.Name, w)
			}
		}
		return page, len(page.Items), nil
	})
	if err != nil {
		return bundles, err
	}
	err = eachPage(ctx, configurationsPerPage, maxConfigurations, func(
		ctx context.Context, o metav1.ListOptions,
	) (metav1.ListInterface, int, error) {
		page, err := registration.MutatingWebhookConfigurations().List(ctx, o)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range page.Items {
			for _, w := range c.Webhooks {
				add("MutatingWebhookConfiguration", c.Name, asValidating(w))
			}
		}
		return page, len(page.Items), nil
	})
	return bundles, err
}

// asValidating returns the fields that both kinds of webhooks have and that a preflight uses.
func asValidating(
	w admissionregistrationv1.MutatingWebhook,
) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
		MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector,
		ObjectSelector: w.ObjectSelector, MatchConditions: w.MatchConditions,
	}
}

// newestOf returns the CA of an object's caBundle that expires last. A bundle may also contain the
// one that it replaces.
func newestOf(object string, bundle []byte) []workload.Certificate {
	all := workload.ParseBundle(object+" (caBundle)", bundle)
	if len(all) == 0 {
		return nil
	}
	return []workload.Certificate{slices.MaxFunc(all, func(a, b workload.Certificate) int {
		return a.NotAfter.Compare(b.NotAfter)
	})}
}

// readSpaces reads the labels of the namespaces that decide which requests webhooks get. A
// namespace that does not exist is missing.
func (s scout) readSpaces(
	ctx context.Context, webhooks []preflight.Webhook,
) (map[string]labels.Set, error) {
	spaces := map[string]labels.Set{}
	names := []string{metav1.NamespaceSystem, corev1.NamespaceNodeLease}
	for _, w := range webhooks {
		if w.MustAnswer() && w.Service.Namespace != "" {
			names = append(names, w.Service.Namespace)
		}
	}
	looked := map[string]bool{}
	for _, name := range names {
		if looked[name] {
			continue
		}
		looked[name] = true
		namespace, err := s.Remote.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if found, err := exists(err); err != nil {
			return nil, err
		} else if found {
			spaces[name] = labels.Set(namespace.Labels)
		}
	}
	return spaces, nil
}

// readBackends reads the endpoints of the webhooks that an upgrade needs.
func (s scout) readBackends(
	ctx context.Context, webhooks []preflight.Webhook, spaces map[string]labels.Set,
) (map[types.NamespacedName]preflight.Backend, error) {
	backends := map[types.NamespacedName]preflight.Backend{}
	for _, w := range webhooks {
		if _, read := backends[w.Service]; read || w.Service.Name == "" || !w.Needed(spaces) {
			continue
		}
		b, err := s.readBackend(ctx, w.Service)
		if err != nil {
			return nil, err
		}
		backends[w.Service] = b
	}
	return backends, nil
}

func (s scout) readBackend(
	ctx context.Context, service types.NamespacedName,
) (preflight.Backend, error) {
	var b preflight.Backend
	_, err := s.Remote.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
	if found, err := exists(err); err != nil || !found {
		return preflight.Backend{Missing: true}, err
	}
	// An endpoint without a Node counts as one of its own.
	nodes, endpoints := map[string]bool{}, map[string]bool{}
	ofService := labels.Set{discoveryv1.LabelServiceName: service.Name}
	err = eachPage(ctx, slicesPerPage, maxObjects, func(
		ctx context.Context, o metav1.ListOptions,
	) (metav1.ListInterface, int, error) {
		o.LabelSelector = labels.SelectorFromSet(ofService).String()
		page, err := s.Remote.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, o)
		if err != nil {
			return nil, 0, err
		}
		for _, slice := range page.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
					continue
				}
				// A Pod with addresses of two families is in two slices.
				name := e.Addresses[0]
				if e.TargetRef != nil {
					name = e.TargetRef.Kind + "/" + e.TargetRef.Name
				}
				endpoints[name] = true
				if e.NodeName != nil {
					name = *e.NodeName
				}
				nodes[name] = true
			}
		}
		return page, len(page.Items), nil
	})
	b.Ready, b.Nodes = len(endpoints), len(nodes)
	return b, err
}
