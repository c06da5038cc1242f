package preflight_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/pkg/version"
)

// say is findings in one line each.
func say(findings []clustercheck.Finding) []string {
	var lines []string
	for _, f := range findings {
		line := string(f.Outcome) + ": "
		if f.Subject != "" {
			line += f.Subject + ": "
		}
		line += f.Message
		if f.Fix != "" {
			line += ". Fix: " + f.Fix
		}
		lines = append(lines, line)
	}
	return lines
}

// sayBriefly is say without fixes.
func sayBriefly(findings []clustercheck.Finding) []string {
	brief := make([]clustercheck.Finding, 0, len(findings))
	for _, f := range findings {
		f.Fix = ""
		brief = append(brief, f)
	}
	return say(brief)
}

func expect(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func upgrade(from, to string) preflight.Upgrade {
	return preflight.Upgrade{From: version.MustParse(from), To: version.MustParse(to)}
}

func kind(group, v, k string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: v, Kind: k}
}

const flow = "flowcontrol.apiserver.k8s.io"

// TestRemovals holds which removals k8s.io/api contains, and how far back.
func TestRemovals(t *testing.T) {
	t.Parallel()
	first := version.Minor{Major: 1, Minor: 99}
	for _, r := range preflight.Removals() {
		if r.Removed.Before(first) {
			first = r.Removed
		}
	}
	if want := (version.Minor{Major: 1, Minor: 16}); first != want {
		t.Errorf("the first removal is in %s, want %s; docs/limits.md names it", first, want)
	}
	tests := map[string]struct {
		upgrade preflight.Upgrade
		want    []string
	}{
		"by one minor": {upgrade("v1.31.4", "v1.32.0"), []string{
			"admissionregistration.k8s.io/v1alpha1, Kind=ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1alpha1, Kind=ValidatingAdmissionPolicyBinding",
			"authentication.k8s.io/v1alpha1, Kind=SelfSubjectReview", flow + "/v1beta3, Kind=FlowSchema", flow + "/v1beta3, Kind=PriorityLevelConfiguration",
		}},
		"within a minor":    {upgrade("v1.32.0", "v1.32.9"), nil},
		"by several minors": {upgrade("v1.26.0", "v1.29.1"), []string{flow + "/v1beta2, Kind=FlowSchema", flow + "/v1beta2, Kind=PriorityLevelConfiguration", "storage.k8s.io/v1beta1, Kind=CSIStorageCapacity"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range tt.upgrade.Removals() {
				got = append(got, r.Kind.String())
			}
			expect(t, tt.want, got)
		})
	}
}

func TestCheckRequested(t *testing.T) {
	t.Parallel()
	apis := []gate.API{
		{Group: flow, Version: "v1beta3", Resource: "flowschemas", Removed: version.Minor{Major: 1, Minor: 32}},
		{Group: "policy", Version: "v1beta1", Resource: "podsecuritypolicies", Removed: version.Minor{Major: 1, Minor: 25}},
	}
	const clients = "find the clients in the audit log (annotation k8s.io/deprecated); "
	psp := "Failed: podsecuritypolicies.v1beta1.policy (removed in v1.25): a client has requested it since the API server started. Fix: " +
		clients + "stop using it: see https://kubernetes.io/docs/reference/using-api/deprecation-guide/"
	tests := map[string]struct {
		upgrade preflight.Upgrade
		want    []string
	}{
		"before": {upgrade("v1.23.0", "v1.24.0"), []string{"Passed: the API server that answered has seen no request for an API that is removed by v1.24"}},
		"one":    {upgrade("v1.24.0", "v1.31.0"), []string{psp}},
		"both": {upgrade("v1.24.0", "v1.32.0"), []string{
			"Failed: flowschemas.v1beta3.flowcontrol.apiserver.k8s.io (removed in v1.32): a client has requested it since the API server started. Fix: " +
				clients + "use flowcontrol.apiserver.k8s.io/v1 FlowSchema", psp,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.want, say(preflight.CheckRequested(tt.upgrade, apis)))
		})
	}
}

func TestCheckManaged(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC) }
	old := kind(flow, "v1beta3", "FlowSchema")
	writes := []preflight.Write{
		{Kind: old, Name: "a", Manager: "helm", Time: at(1)},
		{Kind: old, Name: "c", Manager: "helm", Time: at(2)},
		{Kind: old, Name: "b", Manager: "helm", Time: at(2)},
		{Kind: kind(flow, "v1", "FlowSchema"), Name: "a", Manager: "helm", Time: at(3)},
		{Kind: kind(flow, "v1beta1", "FlowSchema"), Name: "a", Manager: "ancient", Time: at(0)},
	}
	expect(t, []string{
		"Warned: flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema, manager helm: it wrote 3 objects through this API, which is removed in v1.32; " +
			"the last write was to FlowSchema b at 2026-03-01T02:00:00Z. Fix: update this manager if it still runs; use flowcontrol.apiserver.k8s.io/v1 FlowSchema",
	}, say(preflight.CheckManaged(upgrade("v1.30.0", "v1.33.0"), writes, 9)))
	expect(t, []string{"Passed: managedFields of 9 objects name no API that the upgrade removes"},
		say(preflight.CheckManaged(upgrade("v1.32.0", "v1.33.0"), writes, 9)))
}

func TestCheckManifests(t *testing.T) {
	t.Parallel()
	manifests := []preflight.Manifest{
		{Kind: kind(flow, "v1beta3", "FlowSchema"), Name: "fs"},
		{Kind: kind("batch", "v1beta1", "CronJob"), Namespace: "ns", Name: "cj"},
		{Kind: kind("resource.k8s.io", "v1beta1", "DeviceClass"), Name: "removed-later"},
		{Kind: kind("example.com", "v1", "Custom"), Namespace: "ns", Name: "c"},
		{Kind: kind("gateway.networking.k8s.io", "v1", "Gateway"), Name: "gw"},
		{Kind: kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), Name: "crd"},
		{Kind: kind("", "v1", "ConfigMap"), Name: "cm"},
	}
	expect(t, []string{
		"Failed: CronJob ns/cj: its apiVersion batch/v1beta1 is removed in v1.25. Fix: use batch/v1 CronJob",
		"Failed: FlowSchema fs: its apiVersion flowcontrol.apiserver.k8s.io/v1beta3 is removed in v1.32. Fix: use flowcontrol.apiserver.k8s.io/v1 FlowSchema",
	}, say(preflight.CheckManifests(upgrade("v1.30.0", "v1.33.0"), manifests)))
	expect(t, []string{"Passed: 5 objects checked: none uses an API that is removed by v1.33"}, say(preflight.CheckManifests(upgrade("v1.30.0", "v1.33.0"), manifests[2:])))
}

func TestCheckStored(t *testing.T) {
	t.Parallel()
	definitions := []preflight.Definition{
		{Name: "good", Stored: []string{"v1"}, Served: []string{"v1"}},
		{Name: "only-deprecated", Stored: []string{"v1beta1"}, Served: []string{"v1beta1"}, Deprecated: []string{"v1beta1"}},
		{Name: "unserved", Stored: []string{"v1alpha1", "v1"}, Served: []string{"v1"}},
		{Name: "deprecated", Stored: []string{"v1beta1", "v1"}, Served: []string{"v1beta1", "v1"}, Deprecated: []string{"v1beta1"}},
	}
	expect(t, []string{
		"Warned: CustomResourceDefinition deprecated: objects may be stored in version v1beta1, which is deprecated",
		"Warned: CustomResourceDefinition unserved: objects may be stored in version v1alpha1, which it does not serve",
	}, sayBriefly(preflight.CheckStored(definitions)))
	expect(t, []string{"Passed: 1 CustomResourceDefinition checked: objects are stored in versions that are served"}, say(preflight.CheckStored(definitions[:1])))
}

// TestUnknownManifests holds that an API of Kubernetes whose types are gone does not pass.
func TestUnknownManifests(t *testing.T) {
	t.Parallel()
	for _, k := range []schema.GroupVersionKind{
		kind("policy", "v1beta1", "PodSecurityPolicy"),
		kind("extensions", "v1beta1", "PodSecurityPolicy"),
		kind("autoscaling", "v2beta2", "HorizontalPodAutoscaler"),
		kind("batch", "v2alpha1", "CronJob"),
		kind("", "v1", "Pods"),
		kind("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition"),
		kind("apiregistration.k8s.io", "v1beta1", "APIService"),
		kind("auditregistration.k8s.io", "v1alpha1", "AuditSink"),
		kind("settings.k8s.io", "v1alpha1", "PodPreset"),
	} {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			manifests := []preflight.Manifest{{Kind: k, Name: "old"}}
			found := preflight.CheckManifests(upgrade("v1.32.0", "v1.33.0"), manifests)
			want := "k8s.io/api, as Windlass is built with it, has no " + k.GroupVersion().String() +
				" " + k.Kind + ": it is removed, or newer"
			expect(t, []string{"NotChecked: " + k.Kind + " old: " + want}, sayBriefly(found))
		})
	}
}

// TestBoundedFindings holds that a check reports no more than people read.
func TestBoundedFindings(t *testing.T) {
	t.Parallel()
	many := make([]preflight.Manifest, 1000)
	for i := range many {
		many[i] = preflight.Manifest{Kind: kind("batch", "v1beta1", "CronJob"), Name: string(rune('a' + i%26))}
	}
	found := preflight.CheckManifests(upgrade("v1.30.0", "v1.33.0"), many)
	if len(found) != 51 || found[50].Message != "950 more" || found[50].Outcome != clustercheck.Failed {
		t.Errorf("%d findings, the last %+v", len(found), found[len(found)-1])
	}
}
