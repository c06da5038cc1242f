package snapshot_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/snapshot"
)

var serving = types.NamespacedName{Namespace: "capv-system", Name: "capv-serving-cert"}

// TestWebhookFaults: certificates count that have expired, and those that expire soon and that nothing
// renews.
func TestWebhookFaults(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC)
	const (
		object  = "ValidatingWebhookConfiguration capv"
		refuses = "the API server refuses the requests of Cluster API for which it calls a webhook, by " +
			object
		secret = " (Secret capv-cert)"
		renew  = "; let cert-manager renew it: `cmctl renew -n capv-system capv-serving-cert`"
		answer = "; then see that the webhook answers: `kubectl apply --dry-run=server` of an object that it checks"
		look   = "see why it is not renewed, in the log of cert-manager's controller and with " +
			"`kubectl -n capv-system describe certificate capv-serving-cert`"
		again = "apply the components of its provider again, in the same version"
	)
	issued := func(left, renewal time.Duration) *snapshot.WebhookCertificate {
		return &snapshot.WebhookCertificate{
			Secret: "capv-cert", Issuer: "Issuer capv-system/capv", NotAfter: now.Add(left), Renewal: now.Add(renewal),
		}
	}
	blocked := issued(-13*day, -43*day)
	blocked.IssuerMissing = true
	blocked.Request = `CertificateRequest capv-serving-cert-5, since 2026-10-17T03:35:13Z: Referenced "Issuer" not found`
	for name, tt := range map[string]struct {
		certificate *snapshot.WebhookCertificate
		bundle      time.Duration
		want        []snapshot.WebhookFault
	}{
		"valid":            {certificate: issued(65*day, 35*day), bundle: 65 * day},
		"due for a day":    {certificate: issued(29*day, -day), bundle: 29 * day},
		"due, and not yet": {certificate: issued(13*day, -day), bundle: 13 * day},
		"late, with time":  {certificate: issued(15*day, -15*day), bundle: 15 * day},
		// A certificate of a few days is renewed within them.
		"short-lived": {certificate: issued(2*time.Hour, time.Hour), bundle: 2 * time.Hour},
		"not issued":  {certificate: &snapshot.WebhookCertificate{}},
		"expired": {certificate: blocked, bundle: -13 * day, want: []snapshot.WebhookFault{{
			Subject: "Certificate capv-system/capv-serving-cert", Expired: true,
			Message: "it expired on 2026-11-16T22:00:00Z" + secret +
				", and should have been renewed on 2026-10-17T22:00:00Z; CertificateRequest capv-serving-cert-5, " +
				`since 2026-10-17T03:35:13Z: Referenced "Issuer" not found; Issuer capv-system/capv does not exist; ` + refuses,
			Fix: "put Issuer capv-system/capv back: " + again + renew + answer,
		}}},
		"late": {certificate: issued(13*day, -17*day), bundle: 13 * day, want: []snapshot.WebhookFault{{
			Subject: "Certificate capv-system/capv-serving-cert",
			Message: "it expires on 2026-12-12T22:00:00Z" + secret +
				", and should have been renewed on 2026-11-12T22:00:00Z; from then on " + refuses,
			Fix: look + renew + answer,
		}}},
		"an old CA beside a new certificate": {certificate: issued(65*day, 35*day), bundle: -day, want: []snapshot.WebhookFault{{
			Subject: object, Expired: true,
			Message: "the CA in its caBundle expired on 2026-11-28T22:00:00Z, and Certificate " +
				"capv-system/capv-serving-cert is newer; " + refuses,
			Fix: "see that cert-manager's cainjector runs: it writes the CA of the Certificate into caBundle" + answer,
		}}},
		"the Certificate is gone": {certificate: &snapshot.WebhookCertificate{Missing: true}, bundle: -day, want: []snapshot.WebhookFault{{
			Subject: object, Expired: true,
			Message: "the CA in its caBundle expired on 2026-11-28T22:00:00Z, and Certificate " +
				"capv-system/capv-serving-cert, which is to renew it, does not exist; " + refuses,
			Fix: "put this Certificate and its Issuer back: " + again + answer,
		}}},
		"gone, with time":                {certificate: &snapshot.WebhookCertificate{Missing: true}, bundle: 60 * day},
		"without cert-manager, for days": {bundle: 2 * day},
		"without cert-manager": {bundle: 12 * time.Hour, want: []snapshot.WebhookFault{{
			Subject: object,
			Message: "the CA in its caBundle expires on 2026-11-30T10:00:00Z; from then on " + refuses,
			Fix:     "renew it with the program that writes this caBundle" + answer,
		}}},
		"without cert-manager, valid": {bundle: 300 * day},
		"nothing is known":            {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caller := snapshot.WebhookCaller{Object: object}
			w := snapshot.Webhooks{Certificates: map[types.NamespacedName]snapshot.WebhookCertificate{}}
			if tt.bundle != 0 {
				caller.Bundle = now.Add(tt.bundle)
			}
			if tt.certificate != nil {
				caller.Certificate = serving
				w.Certificates[serving] = *tt.certificate
			}
			w.Callers = []snapshot.WebhookCaller{caller}
			if diff := cmp.Diff(tt.want, w.Faults(now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMustAdmit: which webhooks must answer for objects of Cluster API.
func TestMustAdmit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy           string
		group, resources string
		want             bool
	}{
		"core":            {"Fail", "cluster.x-k8s.io", "machines", true},
		"a provider":      {"", "infrastructure.cluster.x-k8s.io", "vspherevms", true},
		"a policy engine": {"Fail", "*", "*/*", true},
		"all Pods":        {"Fail", "*", "pods", false},
		"others":          {"Fail", "notcluster.x-k8s.io", "machines", false},
		"need not answer": {"Ignore", "cluster.x-k8s.io", "machines", false},
	} {
		var policy *admissionregistrationv1.FailurePolicyType
		if tt.policy != "" {
			policy = new(admissionregistrationv1.FailurePolicyType(tt.policy))
		}
		got := snapshot.MustAdmit(policy, []admissionregistrationv1.RuleWithOperations{{
			Rule: admissionregistrationv1.Rule{APIGroups: []string{tt.group}, Resources: []string{tt.resources}},
		}})
		if got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestReadCertificate: fields of another form than cert-manager's count as missing.
func TestReadCertificate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec, status any
		want         snapshot.WebhookCertificate
	}{
		"whole": {
			map[string]any{"secretName": "s", "issuerRef": map[string]any{"name": "i"}},
			map[string]any{"notAfter": "2026-11-16T03:35:12Z", "renewalTime": "2026-10-17T03:35:12Z"},
			snapshot.WebhookCertificate{
				Secret: "s", Issuer: "Issuer ns/i", NotAfter: time.Date(2026, 11, 16, 3, 35, 12, 0, time.UTC),
				Renewal: time.Date(2026, 10, 17, 3, 35, 12, 0, time.UTC),
			},
		},
		"of the cluster": {
			map[string]any{"issuerRef": map[string]any{"name": "i", "kind": "ClusterIssuer", "group": "cert-manager.io"}},
			nil, snapshot.WebhookCertificate{Issuer: "ClusterIssuer i"},
		},
		"of another program": {
			map[string]any{"issuerRef": map[string]any{"name": "i", "kind": "Issuer", "group": "example.com"}},
			nil, snapshot.WebhookCertificate{Issuer: "Issuer.example.com i"},
		},
		"garbled": {"no object", map[string]any{"notAfter": 7}, snapshot.WebhookCertificate{Issuer: "Issuer ns/"}},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cert-manager.io/v1", "metadata": map[string]any{"namespace": "ns"}, "spec": tt.spec, "status": tt.status,
		}}
		if diff := cmp.Diff(tt.want, snapshot.ReadCertificate(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPendingRequest: the newest CertificateRequest of a Certificate counts, unless it is complete.
func TestPendingRequest(t *testing.T) {
	t.Parallel()
	request := func(name, of, created, ready string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"name": name, "creationTimestamp": created,
				"annotations": map[string]any{"cert-manager.io/certificate-name": of},
			},
			"status": map[string]any{"conditions": []any{
				"garbled", map[string]any{"type": "Approved", "status": "True"},
				map[string]any{"type": "Ready", "status": ready, "message": name + "\nwaits", "lastTransitionTime": created},
			}},
		}}
	}
	old, newer := request("c-9", "c", "2026-09-01T00:00:00Z", "True"), request("c-10", "c", "2026-10-01T00:00:00Z", "False")
	other, done := request("d-1", "d", "2026-11-01T00:00:00Z", "False"), request("c-11", "c", "2026-11-01T00:00:00Z", "True")
	const want = "CertificateRequest c-10, since 2026-10-01T00:00:00Z: c-10 waits"
	if got := snapshot.PendingRequest([]*unstructured.Unstructured{newer, old, other}, "c"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, requests := range [][]*unstructured.Unstructured{nil, {other}, {newer, done, old}} {
		if got := snapshot.PendingRequest(requests, "c"); got != "" {
			t.Errorf("%q of %d requests", got, len(requests))
		}
	}
}
