package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/text"
)

// Webhooks are those of the management cluster that must answer requests for objects of Cluster API
// and its providers.
type Webhooks struct {
	Callers []WebhookCaller
	// Certificates are those that Callers name, as cert-manager reports them.
	Certificates map[types.NamespacedName]WebhookCertificate
}

// WebhookCaller is an object by which the API server calls a webhook.
type WebhookCaller struct {
	// Object is its kind and name.
	Object string
	// Bundle is when the CA of its caBundle expires, of several the last; zero if that is not known.
	Bundle time.Time
	// Certificate is that of cert-manager whose CA is put into caBundle; zero for none.
	Certificate types.NamespacedName
}

// WebhookCertificate is a Certificate of cert-manager.
type WebhookCertificate struct {
	Missing bool
	// Secret contains it, and Issuer is the kind and name of what signs it.
	Secret, Issuer string
	// NotAfter is when it expires, and Renewal when cert-manager begins to renew it; zero if there is none.
	NotAfter, Renewal time.Time
	// IssuerMissing reports that its Issuer does not exist.
	IssuerMissing bool
	// Request is what the newest CertificateRequest that is not complete reports; empty for none.
	Request string
}

// WebhookFault is a certificate of webhooks that stops requests of Cluster API, or will.
type WebhookFault struct {
	// Subject is the object's kind and name, Message what is so, and Fix what a person can do.
	Subject, Message, Fix string
	// Expired says that it does so now.
	Expired bool
}

const (
	// injectCA names, as NAMESPACE/NAME, the Certificate whose CA cert-manager puts into a caBundle.
	injectCA = "cert-manager.io/inject-ca-from"
	// soon is how much time a certificate has left at most that is a fault if nothing renews it.
	soon = 14 * 24 * time.Hour
	// overdue is how long after the time of its renewal a certificate counts as not renewed.
	overdue = 24 * time.Hour
	// maxRequestBytes bounds what is shown of a CertificateRequest's message.
	maxRequestBytes = 300
)

// InjectedCertificate returns the Certificate whose CA cert-manager puts into the caBundles of an
// object; zero for none.
func InjectedCertificate(annotations map[string]string) types.NamespacedName {
	namespace, name, _ := strings.Cut(annotations[injectCA], "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// IsClusterAPIGroup reports whether an API group is of Cluster API or of a provider.
func IsClusterAPIGroup(group string) bool {
	return group == clusterv1.GroupVersion.Group || strings.HasSuffix(group, "."+clusterv1.GroupVersion.Group)
}

// MustAdmit reports whether requests for objects of Cluster API or a provider are refused that a
// webhook with this policy and these rules does not answer. Selectors and match conditions count as
// matching.
func MustAdmit(
	policy *admissionregistrationv1.FailurePolicyType, rules []admissionregistrationv1.RuleWithOperations,
) bool {
	if policy != nil && *policy != admissionregistrationv1.Fail {
		return false
	}
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups, IsClusterAPIGroup) ||
			slices.Contains(r.APIGroups, "*") && slices.ContainsFunc(r.Resources, func(s string) bool {
				return s == "*" || s == "*/*"
			})
	})
}

// ReadCertificate returns what counts of a Certificate. Fields of another form count as missing.
func ReadCertificate(o *unstructured.Unstructured) WebhookCertificate {
	kind := cmp.Or(textAt(o, "spec", "issuerRef", "kind"), "Issuer")
	issuer := textAt(o, "spec", "issuerRef", "name")
	// An issuer of another group is of another program, whatever its kind.
	if group := textAt(o, "spec", "issuerRef", "group"); group != "" && group != o.GroupVersionKind().Group {
		kind += "." + group
	}
	if kind == "Issuer" {
		issuer = o.GetNamespace() + "/" + issuer
	}
	return WebhookCertificate{
		Secret: textAt(o, "spec", "secretName"), Issuer: kind + " " + issuer,
		NotAfter: timeAt(o, "status", "notAfter"), Renewal: timeAt(o, "status", "renewalTime"),
	}
}

func textAt(o *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, fields...)
	return text.Bound(s, maxRequestBytes)
}

func timeAt(o *unstructured.Unstructured, fields ...string) time.Time {
	t, _ := time.Parse(time.RFC3339, textAt(o, fields...))
	return t
}

// certificateName is the annotation of a CertificateRequest that names its Certificate.
const certificateName = "cert-manager.io/certificate-name"

// PendingRequest returns what the newest CertificateRequest of a Certificate reports, with its name and
// since when; empty if there is none, or if it is complete.
func PendingRequest(requests []*unstructured.Unstructured, certificate string) string {
	of := slices.DeleteFunc(slices.Clone(requests), func(r *unstructured.Unstructured) bool {
		return r.GetAnnotations()[certificateName] != certificate
	})
	if len(of) == 0 {
		return ""
	}
	newest := slices.MaxFunc(of, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			strings.Compare(a.GetName(), b.GetName()))
	})
	conditions, _, _ := unstructured.NestedSlice(newest.Object, "status", "conditions")
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		condition := &unstructured.Unstructured{Object: fields}
		if textAt(condition, "type") != "Ready" || textAt(condition, "status") == string(metav1.ConditionTrue) {
			continue
		}
		return fmt.Sprintf("CertificateRequest %s, since %s: %s", text.Bound(newest.GetName(), maxRequestBytes),
			textAt(condition, "lastTransitionTime"), textAt(condition, "message"))
	}
	return ""
}

// Late returns the Certificates of cert-manager that have a fault, sorted: what blocks their renewal is
// worth a look.
func (w Webhooks) Late(now time.Time) []types.NamespacedName {
	var late []types.NamespacedName
	for name, c := range w.Certificates {
		if !c.Missing && c.isLate(now) {
			late = append(late, name)
		}
	}
	slices.SortFunc(late, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return late
}

// isLate reports whether a Certificate has expired, or expires soon and should have been renewed.
func (c WebhookCertificate) isLate(now time.Time) bool {
	switch {
	case c.NotAfter.IsZero():
		return false
	case !now.Before(c.NotAfter):
		return true
	}
	return c.NotAfter.Sub(now) < soon && now.Sub(c.Renewal) > overdue
}

// Faults returns the certificates that have expired, or that expire within 14 days although cert-manager
// should have renewed them more than a day ago, sorted by their subjects.
func (w Webhooks) Faults(now time.Time) []WebhookFault {
	var found []WebhookFault
	callers := map[types.NamespacedName][]string{}
	for _, caller := range w.Callers {
		c, issued := w.Certificates[caller.Certificate]
		if issued && !c.Missing && c.isLate(now) {
			callers[caller.Certificate] = append(callers[caller.Certificate], caller.Object)
			continue
		}
		// A CA that expires with its Certificate, or after it, is renewed with it.
		renewed := issued && !c.Missing && !caller.Bundle.Before(c.NotAfter)
		// Who else writes a caBundle may have CAs that live for days.
		early := soon
		if !issued {
			early = overdue
		}
		if caller.Bundle.IsZero() || renewed || caller.Bundle.Sub(now) > early {
			continue
		}
		found = append(found, caller.fault(issued, c.Missing, now))
	}
	for name, objects := range callers {
		found = append(found, w.Certificates[name].fault(name, objects, now))
	}
	slices.SortFunc(found, func(a, b WebhookFault) int { return strings.Compare(a.Subject, b.Subject) })
	return found
}

const (
	againFromProvider = "apply the components of its provider again, in the same version"
	seeAnswer         = "then see that the webhook answers: `kubectl apply --dry-run=server` of an object that it checks"
)

// fault is that of a Certificate by which objects call webhooks.
func (c WebhookCertificate) fault(
	name types.NamespacedName, objects []string, now time.Time,
) WebhookFault {
	slices.Sort(objects)
	words := fmt.Sprintf("it %s (Secret %s)", ends(c.NotAfter, now), c.Secret)
	if !c.Renewal.IsZero() {
		words += ", and should have been renewed on " + clock(c.Renewal)
	}
	if c.Request != "" {
		words += "; " + c.Request
	}
	fix := "see why it is not renewed, in the log of cert-manager's controller and with `kubectl -n " +
		name.Namespace + " describe certificate " + name.Name + "`"
	if c.IssuerMissing {
		words += "; " + c.Issuer + " does not exist"
		fix = "put " + c.Issuer + " back: " + againFromProvider
	}
	fix += "; let cert-manager renew it: `cmctl renew -n " + name.Namespace + " " + name.Name + "`; " + seeAnswer
	return WebhookFault{
		Subject: "Certificate " + name.String(), Fix: fix, Expired: !now.Before(c.NotAfter),
		Message: words + "; " + refusal(objects, c.NotAfter, now),
	}
}

// fault is that of a CA in a caBundle. issued says that a Certificate is named for it, and missing that
// this Certificate does not exist.
func (w WebhookCaller) fault(issued, missing bool, now time.Time) WebhookFault {
	words := "the CA in its caBundle " + ends(w.Bundle, now)
	fix := "renew it with the program that writes this caBundle"
	switch {
	case issued && missing:
		words += fmt.Sprintf(", and Certificate %s, which is to renew it, does not exist", w.Certificate)
		fix = "put this Certificate and its Issuer back: " + againFromProvider
	case issued:
		words += fmt.Sprintf(", and Certificate %s is newer", w.Certificate)
		fix = "see that cert-manager's cainjector runs: it writes the CA of the Certificate into caBundle"
	}
	return WebhookFault{
		Subject: w.Object, Fix: fix + "; " + seeAnswer, Expired: !now.Before(w.Bundle),
		Message: words + "; " + refusal([]string{w.Object}, w.Bundle, now),
	}
}

func ends(at, now time.Time) string {
	if now.Before(at) {
		return "expires on " + clock(at)
	}
	return "expired on " + clock(at)
}

// refusal says what a certificate does that has expired, or will.
func refusal(objects []string, at, now time.Time) string {
	const most = 3
	when := "the API server refuses"
	if now.Before(at) {
		when = "from then on the API server refuses"
	}
	return when + " the requests of Cluster API for which it calls a webhook, by " +
		text.JoinSome(objects, most, ", ")
}
