package hosts

import (
	"cmp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/settings"
)

// TestLackingSettings: a config with a setting that the desired version lacks is not covered, and the
// note says why. To remove such a setting is covered.
func TestLackingSettings(t *testing.T) {
	t.Parallel()
	const (
		gate  = "UserNamespacesPodSecurityStandards=true"
		other = "NodeSwap=true"
	)
	server := func(pairs ...string) fields {
		args, _, _ := unstructured.NestedFieldNoCopy(withArgs(pairs...),
			"joinConfiguration", "nodeRegistration", "kubeletExtraArgs")
		return fields{"clusterConfiguration": fields{"apiServer": fields{"extraArgs": args}}}
	}
	webhooks := fields{
		"clusterConfiguration": fields{"apiServer": fields{"extraArgs": []any{
			fields{"name": "admission-control-config-file", "value": "/etc/a.yaml"},
		}}},
		"files": []any{fields{
			"path": "/etc/a.yaml",
			"content": "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n" +
				"- configuration: {apiVersion: apiserver.config.k8s.io/v1alpha1, kind: WebhookAdmission}\n",
		}},
	}
	empty := fields{"joinConfiguration": fields{"nodeRegistration": fields{"name": "n"}}}
	named := func(spec fields) fields {
		if err := unstructured.SetNestedField(spec, "n", "joinConfiguration", "nodeRegistration", "name"); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	for name, test := range map[string]struct {
		from, to fields
		version  string
		// was is the current version; v1.34.8 if it is empty. accepted are names of settings.
		was      string
		accepted []string
		// covered says that nothing of the config is left, and note is in the notes.
		covered bool
		note    string
	}{
		"the gate stays": {
			from: withArgs("feature-gates", gate), to: withArgs("feature-gates", gate), version: "v1.35.5",
			note: "the feature gate UserNamespacesPodSecurityStandards=true of kubelet is removed in v1.35",
		},
		"the gate stays in a version that has it": {
			from: withArgs("feature-gates", gate), to: withArgs("feature-gates", gate), version: "v1.34.9",
			covered: true,
		},
		"the gate is added": {
			from: withArgs("v", "1"), to: withArgs("v", "1", "feature-gates", gate), version: "v1.35.5",
			note: "kubelet/UserNamespacesPodSecurityStandards",
		},
		"the argument is removed": {
			from: withArgs("v", "1", "feature-gates", gate), to: withArgs("v", "1"), version: "v1.35.5",
			covered: true,
		},
		"the only argument is removed": {
			from: named(withArgs("feature-gates", gate)), to: empty, version: "v1.35.5", covered: true,
		},
		"the only argument is removed, and what is around it": {
			from: withArgs("feature-gates", gate), to: fields{}, version: "v1.35.5", covered: true,
		},
		"the argument is removed in a version that has the gate": {
			from: withArgs("v", "1", "feature-gates", gate), to: withArgs("v", "1"), version: "v1.34.9",
		},
		"the argument is removed with another gate": {
			from: withArgs("v", "1", "feature-gates", gate+","+other), to: withArgs("v", "1"),
			version: "v1.35.5",
		},
		"the gate is removed, and another one stays": {
			from:    withArgs("feature-gates", gate+","+other),
			to:      withArgs("feature-gates", other),
			version: "v1.35.5", covered: true,
		},
		"a file has an API that is gone": {
			from: webhooks, to: webhooks, was: "v1.35.4", version: "v1.36.3",
			note: "kube-apiserver/apiserver.config.k8s.io/v1alpha1/WebhookAdmission",
		},
		"the API server's gate stays": {
			from: server("feature-gates", gate), to: server("feature-gates", gate), version: "v1.35.5",
			note: "kube-apiserver/UserNamespacesPodSecurityStandards",
		},
		"the API server's gate is removed": {
			from: server("feature-gates", gate+","+other), to: server("feature-gates", other),
			version: "v1.35.5", covered: true,
		},
		"the API server's argument is removed": {
			from: server("v", "2", "feature-gates", gate), to: server("v", "2"), version: "v1.35.5",
			covered: true,
		},
		"the API server's cloud provider is removed": {
			from: server("cloud-provider", "external"), to: fields{}, version: "v1.35.5", covered: true,
		},
		"an argument of the API server is removed without a change of the version": {
			from: server("v", "2", "feature-gates", gate), to: server("v", "2"), version: "v1.35.5",
			was: "v1.35.5",
		},
		"an argument of the API server is removed for another patch": {
			from: server("v", "2", "feature-gates", gate), to: server("v", "2"), version: "v1.35.5",
			was: "v1.35.4", covered: true,
		},
		"the argument is removed, and its gate is accepted": {
			from: withArgs("v", "1", "feature-gates", gate), to: withArgs("v", "1"), version: "v1.35.5",
			accepted: []string{"kubelet/UserNamespacesPodSecurityStandards"},
		},
		"the API server's argument is removed, and its gate is accepted": {
			from: server("v", "2", "feature-gates", gate), to: server("v", "2"), version: "v1.35.5",
			accepted: []string{"kube-apiserver/UserNamespacesPodSecurityStandards"},
		},
		"another argument of the API server is removed": {
			from: server("v", "2", "profiling", "false"), to: server("v", "2"), version: "v1.35.5",
		},
		"an argument of the API server is added": {
			from: server("v", "2", "feature-gates", gate), to: server("v", "2", "profiling", "false"),
			version: "v1.35.5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
				from := objects(t, scope, cmp.Or(test.was, "v1.34.8"), test.from)
				to := objects(t, scope, test.version, test.to)
				accepts := kubeadmCoverage()
				accepts.accepted = test.accepted
				patches, err := (&Updater{coverage: accepts}).patches(testContext, scope, from, to)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(strings.Join(patches.Notes, " "), test.note) {
					t.Errorf("scope %d: notes %q, want %q", scope, patches.Notes, test.note)
				}
				if covers := len(patches.Machine.Data) > 0; covers != (test.note == "" && test.was != test.version) {
					t.Errorf("scope %d: covers the version: %t", scope, covers)
				}
				left := uncovered(t, accepts, scope, from, to)
				if covered := len(left) == 0; covered != test.covered {
					t.Errorf("scope %d: left %v, want all covered: %t", scope, left, test.covered)
				}
			}
		})
	}
}

// TestUnknownVersion: coverage of a minor that is newer than the catalog is a warning with a fix, never
// in order.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	known, unknown := settings.Newest().String()+".1", settings.Newest().Next().String()+".0"
	for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
		for _, spec := range []fields{nil, withArgs("v", "1")} {
			from := objects(t, scope, known, spec)
			for _, test := range []struct {
				version, want string
			}{
				{known, ""},
				{unknown, "the settings of " + settings.Newest().Next().String() + " are not known to this release"},
			} {
				to := objects(t, scope, test.version, spec)
				patches, err := (&Updater{coverage: kubeadmCoverage()}).patches(testContext, scope, from, to)
				if err != nil {
					t.Fatal(err)
				}
				got := strings.Join(patches.Warnings, " ")
				if !strings.HasPrefix(got, test.want) || (test.want == "") != (got == "") ||
					got != "" && !strings.Contains(got, "Fix: compare the settings with the release notes") {
					t.Errorf("scope %d, %s: warnings %q, want %q", scope, test.version, got, test.want)
				}
			}
		}
	}
}

// TestAcceptedSettings: an Updater accepts a setting by its name.
func TestAcceptedSettings(t *testing.T) {
	t.Parallel()
	spec := withArgs("feature-gates", "UserNamespacesPodSecurityStandards=true")
	c := kubeadmCoverage()
	from := objects(t, cover.Machine, "v1.34.8", spec)
	to := objects(t, cover.Machine, "v1.35.5", spec)
	if left := uncovered(t, c, cover.Machine, from, to); len(left) != 1 {
		t.Errorf("left %v, want the version", left)
	}
	c.accepted = []string{"kubelet/UserNamespacesPodSecurityStandards"}
	if left := uncovered(t, c, cover.Machine, from, to); len(left) > 0 {
		t.Errorf("left %v after it was accepted", left)
	}
}
