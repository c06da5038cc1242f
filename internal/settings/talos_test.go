package settings_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestTalos: the patches of a Talos machine configuration give settings to upstream's components, in
// both forms. want are the findings of v1.34.8 -> v1.35.5, as PATH ID PROBLEM.
func TestTalos(t *testing.T) {
	t.Parallel()
	const removed = " kubelet/UserNamespacesPodSecurityStandards Removed"
	for name, test := range map[string]struct{ kind, spec, want string }{
		"the gate of both components, and one that stays": {"TalosControlPlane", `
controlPlaneConfig: {controlplane: {generateType: controlplane, strategicPatches: ["
machine: {kubelet: {extraConfig: {featureGates: {UserNamespacesSupport: true, UserNamespacesPodSecurityStandards: true}}}}\n
cluster: {apiServer: {extraArgs: {feature-gates: 'UserNamespacesSupport=true,UserNamespacesPodSecurityStandards=true'}}}"]}}`,
			"spec.controlPlaneConfig.controlplane.strategicPatches.cluster.apiServer.extraArgs " +
				"kube-apiserver/UserNamespacesPodSecurityStandards Removed\n" +
				"spec.controlPlaneConfig.controlplane.strategicPatches.machine.kubelet.extraConfig.featureGates" + removed},
		"only gates that stay": {"TalosControlPlane", `
controlPlaneConfig: {controlplane: {strategicPatches: ["
machine: {kubelet: {extraConfig: {featureGates: {UserNamespacesSupport: true}, maxPods: 200}}}\n
cluster: {apiServer: {extraArgs: {feature-gates: UserNamespacesSupport=true}}}"]}}`, ""},
		"workers by their template": {"TalosConfigTemplate", `
template: {spec: {generateType: worker, strategicPatches: [
"machine: {kubelet: {extraConfig: {featureGates: {UserNamespacesPodSecurityStandards: true}}}}"]}}`,
			"spec.template.spec.strategicPatches.machine.kubelet.extraConfig.featureGates" + removed},
		"workers run no API server": {"TalosConfigTemplate", `
template: {spec: {generateType: worker, strategicPatches: [
"cluster: {apiServer: {extraArgs: {feature-gates: UserNamespacesPodSecurityStandards=true}}}"]}}`, ""},
		"a list of values": {"TalosConfig", `
strategicPatches: ["machine: {kubelet: {extraArgs: {feature-gates: [UserNamespacesSupport=true, UserNamespacesPodSecurityStandards=true]}}}"]`,
			"spec.strategicPatches.machine.kubelet.extraArgs" + removed},
		"a later document": {"TalosConfig", `
strategicPatches: ["apiVersion: v1alpha1\nkind: SideroLinkConfig\n---\nmachine: {kubelet: {extraArgs: {pod-infra-container-image: x}}}"]`,
			"spec.strategicPatches.machine.kubelet.extraArgs kubelet/--pod-infra-container-image Removed"},
		"a document that is none": {"TalosConfig", `
strategicPatches: ["{{ a }}: [\n---\nmachine: {kubelet: {extraArgs: {pod-infra-container-image: x}}}"]`,
			"spec.strategicPatches.machine.kubelet.extraArgs kubelet/--pod-infra-container-image Removed"},
		"a later patch replaces": {"TalosConfig", `
strategicPatches:
- "machine: {kubelet: {extraArgs: {feature-gates: UserNamespacesPodSecurityStandards=true, v: 2}}}"
- "machine: {kubelet: {extraArgs: {feature-gates: UserNamespacesSupport=true}}}"`, ""},
		"a later patch removes": {"TalosConfig", `
strategicPatches:
- "machine: {kubelet: {extraArgs: {feature-gates: UserNamespacesPodSecurityStandards=true}}}"
- "machine: {kubelet: {extraArgs: {$patch: delete}}}"`, ""},
		"a JSON patch of one argument": {"TalosConfig", `
configPatches: [{op: add, path: /machine/kubelet/extraArgs/feature-gates, value: UserNamespacesPodSecurityStandards=true}]`,
			"spec.configPatches.machine.kubelet.extraArgs" + removed},
		"a JSON patch of a prefix": {"TalosControlPlane", `
controlPlaneConfig: {init: {configPatches: [{op: replace, path: /cluster, value: {
  scheduler: {extraArgs: {feature-gates: UserNamespacesPodSecurityStandards=true}},
  controllerManager: {extraArgs: {cloud-provider: external, pod-infra-container-image: x}},
  proxy: {extraArgs: {no-such-flag: ""}}}}]}}`,
			"spec.controlPlaneConfig.init.configPatches.cluster.controllerManager.extraArgs kube-controller-manager/--pod-infra-container-image Unrecognized\n" +
				"spec.controlPlaneConfig.init.configPatches.cluster.scheduler.extraArgs kube-scheduler/UserNamespacesPodSecurityStandards Removed\n" +
				"spec.controlPlaneConfig.init.configPatches.cluster.proxy.extraArgs kube-proxy/--no-such-flag Unrecognized"},
		"a JSON patch of an element": {"TalosConfig", `
configPatches: [{op: add, path: /machine/kubelet/extraArgs/feature-gates/-, value: UserNamespacesPodSecurityStandards=true}]`,
			"spec.configPatches.machine.kubelet.extraArgs" + removed},
		"JSON patches that remove": {"TalosConfig", `
configPatches:
- {op: add, path: /machine/kubelet, value: {extraArgs: {feature-gates: UserNamespacesPodSecurityStandards=true, v: "2"}}}
- {op: test, path: /machine/kubelet/extraArgs/v, value: "2"}
- {op: remove, path: /machine/kubelet/extraArgs/feature-gates}`, ""},
		"a whole configuration": {"TalosConfig", `
data: "machine: {kubelet: {extraArgs: {pod-infra-container-image: x}}}"`,
			"spec.data.machine.kubelet.extraArgs kubelet/--pod-infra-container-image Removed"},
		"nothing of its form": {"TalosConfig", `
strategicPatches: {a: b}
configPatches: [a, {op: add}, {op: add, path: 1, value: {}}, {op: add, path: /machine, value: [x]}]`, ""},
		"nothing": {"TalosControlPlane", "{}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := contentOf(t, test.spec)
			content := contentOf(t, test.spec)
			uses := settings.FromObject(settings.Object{Kind: test.kind, Name: "a", Content: content})
			if diff := cmp.Diff(before, content); diff != "" {
				t.Errorf("the object was changed (-want +got):\n%s", diff)
			}
			u := settings.Upgrade{From: version.MustParse("v1.34.8"), To: version.MustParse("v1.35.5")}
			var got []string
			for _, f := range settings.Check(u, uses) {
				if f.Object != test.kind+" a" || f.Warning {
					t.Errorf("%s: warning %t", f.Subject(), f.Warning)
				}
				got = append(got, f.Path+" "+f.ID()+" "+string(f.Problem))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func contentOf(t *testing.T, spec string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"spec": fields}
}
