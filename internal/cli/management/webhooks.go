package management

import (
	"context"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/workload"
)

// certManager is the API of cert-manager.
var certManager = schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}

// Webhooks reads the webhooks of Cluster API and its providers, and the Certificates that cert-manager
// issues for them; none of a kind that the server does not know. It reads no Secrets. With an error, it
// returns what it has read.
func (m Cluster) Webhooks(ctx context.Context, now time.Time) (w snapshot.Webhooks, err error) {
	if w.Callers, err = m.webhookCallers(ctx); err != nil {
		return w, err
	}
	w.Certificates = map[types.NamespacedName]snapshot.WebhookCertificate{}
	for _, caller := range w.Callers {
		name := caller.Certificate
		if _, read := w.Certificates[name]; read || name.Name == "" {
			continue
		}
		object, err := m.certManagerObject(ctx, "Certificate", name)
		switch {
		case IgnoreMissing(err) != nil:
			return w, err
		case err != nil:
			w.Certificates[name] = snapshot.WebhookCertificate{Missing: true}
		default:
			w.Certificates[name] = snapshot.ReadCertificate(object)
		}
	}
	for _, name := range w.Late(now) {
		w.Certificates[name] = m.explainLate(ctx, name, w.Certificates[name])
	}
	return w, nil
}

// webhookCallers reads the objects by which the API server calls these webhooks. Of
// CustomResourceDefinitions it reads the metadata, because their schemas are large; those that
// cert-manager writes to have an annotation.
func (m Cluster) webhookCallers(ctx context.Context) (callers []snapshot.WebhookCaller, err error) {
	validating, err := List[*admissionregistrationv1.ValidatingWebhookConfiguration,
		admissionregistrationv1.ValidatingWebhookConfigurationList](
		ctx, m, "ValidatingWebhookConfigurations", Scope{})
	if IgnoreMissing(err) != nil {
		return nil, err
	}
	for _, c := range validating {
		caller := newCaller("ValidatingWebhookConfiguration", c)
		for _, w := range c.Webhooks {
			caller.add(w.ClientConfig.CABundle, w.FailurePolicy, w.Rules)
		}
		callers = caller.appendTo(callers)
	}
	mutating, err := List[*admissionregistrationv1.MutatingWebhookConfiguration,
		admissionregistrationv1.MutatingWebhookConfigurationList](
		ctx, m, "MutatingWebhookConfigurations", Scope{})
	if IgnoreMissing(err) != nil {
		return callers, err
	}
	for _, c := range mutating {
		caller := newCaller("MutatingWebhookConfiguration", c)
		for _, w := range c.Webhooks {
			caller.add(w.ClientConfig.CABundle, w.FailurePolicy, w.Rules)
		}
		callers = caller.appendTo(callers)
	}
	definitions, err := m.metadata(ctx, "CustomResourceDefinitions", schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList",
	}, Scope{})
	for _, d := range definitions {
		_, group, _ := strings.Cut(d.Name, ".")
		caller := newCaller("CustomResourceDefinition", d)
		if snapshot.IsClusterAPIGroup(group) && caller.Certificate.Name != "" {
			callers = append(callers, caller.WebhookCaller)
		}
	}
	return callers, IgnoreMissing(err)
}

// caller is an object with webhooks. counts says that one of them counts.
type caller struct {
	snapshot.WebhookCaller
	counts bool
}

func newCaller(kind string, object metav1.Object) caller {
	return caller{WebhookCaller: snapshot.WebhookCaller{
		Object: kind + " " + object.GetName(), Certificate: snapshot.InjectedCertificate(object.GetAnnotations()),
	}}
}

// add adds a webhook. Of several caBundles the first one counts that expires.
func (c *caller) add(
	bundle []byte, policy *admissionregistrationv1.FailurePolicyType,
	rules []admissionregistrationv1.RuleWithOperations,
) {
	if !snapshot.MustAdmit(policy, rules) {
		return
	}
	c.counts = true
	// A bundle may also contain the CA that it replaces.
	all := workload.ParseBundle("", bundle)
	if len(all) == 0 {
		return
	}
	last := slices.MaxFunc(all, func(a, b workload.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
	if c.Bundle.IsZero() || last.Before(c.Bundle) {
		c.Bundle = last
	}
}

func (c *caller) appendTo(callers []snapshot.WebhookCaller) []snapshot.WebhookCaller {
	if !c.counts {
		return callers
	}
	return append(callers, c.WebhookCaller)
}

// explainLate adds what keeps cert-manager from renewing a Certificate. Best effort: what cannot be
// read is not known.
func (m Cluster) explainLate(
	ctx context.Context, name types.NamespacedName, c snapshot.WebhookCertificate,
) snapshot.WebhookCertificate {
	requests, err := listPages[*unstructured.Unstructured](
		ctx, m, "CertificateRequests", InNamespace(name.Namespace), func() client.ObjectList {
			page := &unstructured.UnstructuredList{}
			page.SetGroupVersionKind(certManager.WithKind("CertificateRequestList"))
			return page
		})
	if err == nil {
		c.Request = snapshot.PendingRequest(requests, name.Name)
	}
	kind, issuer, _ := strings.Cut(c.Issuer, " ")
	key := types.NamespacedName{Name: issuer}
	if namespace, own, namespaced := strings.Cut(issuer, "/"); namespaced {
		key = types.NamespacedName{Namespace: namespace, Name: own}
	}
	if kind == "Issuer" || kind == "ClusterIssuer" {
		_, err := m.certManagerObject(ctx, kind, key)
		c.IssuerMissing = IsGone(err)
	}
	return c
}

// certManagerObject reads an object of cert-manager.
func (m Cluster) certManagerObject(
	ctx context.Context, kind string, name types.NamespacedName,
) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(certManager.WithKind(kind))
	if err := m.Get(ctx, name, object); err != nil {
		return nil, &ReadError{Item: kind + " " + name.String(), Err: err}
	}
	return object, nil
}
