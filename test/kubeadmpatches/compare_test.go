package kubeadmpatches_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/cmd/kubeadm/app/util/patches"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
)

// hosts are the documents of hosts, by target: one as kubeadm makes it, one where people have added a
// container and removed what is optional, and one whose safe fields are of other types.
var hosts = []map[string]string{documents(false), documents(true), oddDocuments()}

func oddDocuments() map[string]string {
	all := map[string]string{kubeadmpatch.Kubelet: `{"kind": "KubeletConfiguration", "evictionHard": [], "featureGates": null, "enforceNodeAllocatable": {"a": [{}]}}`}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		all[name] = `{"kind": "Pod", "metadata": {"annotations": [], "labels": null}, "spec": {"containers": [{"name": "` + name + `", "resources": [{"limits": 1}]}]}}`
	}
	return all
}

func documents(changed bool) map[string]string {
	all := map[string]string{
		kubeadmpatch.Kubelet: `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "staticPodPath": "/etc/kubernetes/manifests",
			"authentication": {"anonymous": {"enabled": false}}, "clusterDNS": ["10.96.0.10"], "evictionHard": {"memory.available": "100Mi"},
			"logging": {"options": {"json": {"infoBufferSize": "0"}}}, "enforceNodeAllocatable": ["pods"]}`,
	}
	if changed {
		all[kubeadmpatch.Kubelet] = `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}`
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		container := map[string]any{
			"name": name, "image": "registry.example/" + name + ":v1", "command": []any{name, "--a=b"},
			"volumeMounts": []any{map[string]any{"name": "certs", "mountPath": "/etc/kubernetes/pki", "readOnly": true}},
		}
		metadata, containers := map[string]any{"name": name, "namespace": "kube-system"}, []any{container}
		if changed {
			containers = []any{map[string]any{"name": "proxy", "image": "registry.example/proxy:v1"}, container}
		} else {
			container["resources"] = map[string]any{"requests": map[string]any{"cpu": "100m"}}
			metadata["annotations"] = map[string]any{"kubeadm.kubernetes.io/hash": "x"}
			metadata["labels"] = map[string]any{"component": name, "tier": "control-plane"}
		}
		content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": map[string]any{}, "spec": map[string]any{
			"containers": containers, "hostNetwork": true, "priority": 2000001000,
			"volumes": []any{map[string]any{"name": "certs", "hostPath": map[string]any{"path": "/etc/kubernetes/pki", "type": "DirectoryOrCreate"}}},
		}})
		if err != nil {
			panic(err)
		}
		all[name] = string(content)
	}
	return all
}

// evil is a whole spec of a Pod, in JSON.
const evil = `{"hostPID": true, "containers": [{"name": "kube-apiserver", "image": "evil", "securityContext": {"privileged": true}}]}`

// seeds are attacks, and patches that are like them and safe.
var seeds = [][2]string{
	{"kube-apiserver0+json.json", `[{"op": "add", "path": "/metadata/annotations", "value": {"evil": ` + evil + `}},
		{"op": "copy", "from": "/metadata/annotations/evil", "path": "/spec"}, {"op": "remove", "path": "/metadata/annotations/evil"}]`},
	{"kube-apiserver0+json.json", `[{"op": "add", "path": "/metadata/annotations", "value": {"evil": ` + evil + `}}, {"op": "move", "from": "/metadata/annotations/evil", "path": "/spec"}]`},
	{"kube-apiserver0+json.json", `[{"op": "add", "path": "/spec/containers/0/resources", "value": {"limits": ` + evil + `}},
		{"op": "copy", "from": "/spec/containers/0/resources/limits", "path": "/spec"}]`},
	{"kube-apiserver.yaml", "metadata: {annotations: {evil: " + evil + "}}"},
	{"kube-apiserver+json.yaml", `[{"op": "copy", "from": "/metadata/annotations/evil", "path": "/spec"}]`},
	{"kube-apiserver+json.yaml", `[{"op": "test", "path": "/metadata/name", "value": "x"}, {"op": "add", "path": "/spec/hostPID", "value": true}]`},
	{"kube-apiserver+json.yaml", `[{"op": "replace", "path": "", "value": {"spec": ` + evil + `}}]`},
	{"kube-apiserver+json.yaml", `[{"op": "add", "path": "x/spec/hostPID", "value": true}]`},
	{"kube-apiserver+json.yaml", `[{"op": "replace", "path": "/spec/containers/-1", "value": {"name": "kube-apiserver", "resources": {}}}]`},
	{"kube-apiserver+json.yaml", `[{"op": "add", "path": "/spec/containers/-", "value": {"name": "kube-apiserver", "resources": {}}}]`},
	{"kube-apiserver+json.yaml", `[{"op": "remove", "path": "/metadata/labels/gone"}, {"op": "add", "path": "/metadata/labels/a", "value": "b"}]`},
	{"kube-apiserver+json.yaml", `[{"op": "add", "path": "/metadata/annotations", "value": null}, {"op": "add", "path": "/metadata/annotations/a", "value": "b"}]`},
	{"kube-apiserver+json.yaml", `[{"op": "add", "path": "/metadata/annotations"}, {"op": "add", "path": "/metadata/annotations/a", "value": "b"}]`},
	{"kube-apiserver+json.yaml", `[{"op": "add", "op": "copy", "path": "/metadata/annotations/a", "value": "b"}]`},
	{"kube-apiserver+json.yaml", `[{"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "b"}]`},
	{"kube-apiserver+jsonx.yaml", `[{"op": "add", "path": "/spec/hostPID", "value": true}]`},
	{"kube-apiserver+merge.yaml", `[{"op": "add", "path": "/metadata/annotations/a", "value": "b"}]`},
	{"kube-apiserver+merge.yaml", "spec: {containers: [{name: kube-apiserver, resources: {}}]}"},
	{"kube-apiserver.yaml", "spec: {containers: [{name: kube-apiserver, resources: {limits: {cpu: 1}}}]}"},
	{"kube-apiserver.yaml", "spec: {containers: [{name: other, resources: {}}]}"},
	{"kube-apiserver.yaml", "spec: {containers: [{name: kube-apiserver, $patch: replace, resources: {}}]}"},
	{"kube-apiserver.yaml", "spec: {containers: [{name: kube-apiserver, resources: {$patch: delete}}]}"},
	{"kube-apiserver.yaml", "spec: {$patch: delete}"},
	{"kube-apiserver.yaml", "spec: {$retainKeys: [containers]}"},
	{"kube-apiserver.yaml", "spec: {$setElementOrder/containers: [{name: kube-apiserver}]}"},
	{"kube-apiserver.yaml", "metadata: {$deleteFromPrimitiveList/finalizers: [a]}"},
	{"kube-apiserver.yaml", "metadata: {annotations: {$patch: replace, a: b}, labels: {$retainKeys: x}}"},
	{"kube-apiserver.yaml", "metadata: {labels: {a: b}}\n---\nspec: {hostPID: true}"},
	{"kube-apiserver.yaml", "metadata: {labels: {a: b}}\n--- # c\nspec: {hostPID: true}"},
	{"kube-apiserver.yaml", "metadata: {labels: {a: b}}\n--- {spec: {hostPID: true}}"},
	{"kube-apiserver.yaml", "metadata: {labels: &x {a: b}, annotations: *x}"},
	{"kube-apiserver.yaml", "<<: {spec: {hostPID: true}}"},
	{"kube-apiserver.yaml", "kind: Pod\nSpec: {hostPID: true}"},
	{"kube-apiserver.yaml", "null"},
	{"a\nkube-apiserver.yaml", "spec: {hostPID: true}"},
	{"kube-apiserver\n.yaml", "spec: {hostPID: true}"},
	{"kube-apiserver.yaml\n", "spec: {hostPID: true}"},
	{"kube-apiserver.yaml.json", "spec: {hostPID: true}"},
	{"kube-apiserver-evil.yaml", "spec: {hostPID: true}"},
	{"kubeletconfiguration.yaml", "maxPods: 50\nlogging: {options: {json: null}}"},
	{"kubeletconfiguration.yaml", "staticPodPath: /x"},
	{"kubeletconfiguration.yaml", "StaticPodPath: /x"},
	{"kubeletconfiguration.yaml", "$retainKeys: [maxPods]\nmaxPods: 1"},
	{"kubeletconfiguration.yaml", "$deleteFromPrimitiveList/clusterDNS: [10.96.0.10]"},
	{"kubeletconfiguration.yaml", "evictionHard: {$patch: delete}\nenforceNodeAllocatable: [none]"},
	{"kubeletconfiguration.yaml", "evictionHard: {$retainKeys: [{a: b}]}"},
	{"kubeletconfiguration+merge.yaml", "evictionHard: null\nmaxPods: 50"},
	{"kubeletconfiguration+json.yaml", `[{"op": "copy", "from": "/featureGates", "path": "/authentication"}]`},
	{"kubeletconfiguration+json.yaml", `[{"op": "add", "path": "/evictionHard/a~1b", "value": "1"}, {"op": "add", "path": "/enforceNodeAllocatable/-", "value": "x"}]`},
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds {
		check(t, t.TempDir(), seed[0], seed[1])
	}
}

// FuzzKubeadmPatches: no patch that is accepted changes another field than a safe one.
func FuzzKubeadmPatches(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed[0], seed[1])
	}
	parent := f.TempDir()
	f.Fuzz(func(t *testing.T, name, content string) {
		if strings.ContainsAny(name, "/\x00") || len(name) > 255 || name == "" || name == "." || name == ".." {
			return
		}
		check(t, parent, name, content)
	})
}

// TestRandomPatches makes patches of what is safe and what is like it.
func TestRandomPatches(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	var accepted, applied, all int
	for range 10 {
		rapid.Check(t, func(t *rapid.T) {
			target := rapid.SampledFrom([]string{"kube-apiserver", "etcd", kubeadmpatch.Kubelet}).Draw(t, "target")
			kind := rapid.SampledFrom([]string{".yaml", "0.json", "+merge.yaml", "0+json.json", "+strategic.json"}).Draw(t, "kind")
			content := documentsOf(t, target, strings.Contains(kind, "json.json"))
			o := check(t, parent, target+kind, content)
			all++
			if o.accepted {
				accepted++
			}
			if o.accepted && o.applied {
				applied++
			}
		})
	}
	t.Logf("%d of %d patches are accepted, and kubeadm applies %d of these", accepted, all, applied)
	if applied < all/20 || accepted > all*9/10 {
		t.Error("nearly no patches are accepted and applied, or nearly all are")
	}
}

// documentsOf makes one or two documents of a patch.
func documentsOf(t *rapid.T, target string, operations bool) string {
	var texts []string
	for range rapid.IntRange(1, 2).Draw(t, "documents") {
		var patch any
		if operations {
			patch = rapid.SliceOfN(operation(target), 1, 3).Draw(t, "operations")
		} else {
			patch = fieldsOf(t, target)
		}
		text, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "\n---\n")
}

// value makes what may be in a field, right or wrong.
func value(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		"a", "b", "1", 1, true, nil, []any{}, []any{"a"}, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": nil}, map[string]any{"cpu": "1"},
		map[string]any{"limits": map[string]any{"cpu": 1}}, map[string]any{"$patch": "replace", "a": "b"}, map[string]any{"$patch": "delete"},
		map[string]any{"hostPID": true}, map[string]any{"$retainKeys": []any{map[string]any{}}}, []any{map[string]any{"name": "kube-apiserver", "image": "x"}},
	}).Draw(t, "value")
}

func operation(target string) *rapid.Generator[any] {
	paths := []string{
		"/metadata/annotations", "/metadata/annotations/a", "/metadata/labels", "/metadata/labels/component", "/metadata/labels/a/b", "/spec/containers/0/resources",
		"/spec/containers/1/resources", "/spec/containers/0/resources/limits", "/spec/containers/0/resources/requests/cpu", "/spec/containers/-/resources",
		"/spec/containers/0/name", "/spec/containers/0", "/spec/containers", "/spec", "/metadata", "", "/", "/spec/hostPID", "/status", "/metadata/name",
	}
	if target == kubeadmpatch.Kubelet {
		paths = []string{
			"/maxPods", "/evictionHard", "/evictionHard/a", "/featureGates", "/featureGates/A", "/enforceNodeAllocatable/0", "/enforceNodeAllocatable/-",
			"/staticPodPath", "/authentication", "/authentication/anonymous/enabled", "/clusterDNS/0", "", "/kind",
		}
	}
	somePath := rapid.SampledFrom(paths)
	return rapid.Custom(func(t *rapid.T) any {
		o := map[string]any{
			"op":   rapid.SampledFrom([]string{"add", "add", "replace", "replace", "remove", "copy", "move", "test", "none"}).Draw(t, "op"),
			"path": somePath.Draw(t, "path"), "value": value(t),
		}
		if o["op"] == "copy" || o["op"] == "move" {
			o["from"] = somePath.Draw(t, "from")
		}
		return o
	})
}

// fieldsOf makes a merge patch or strategic merge patch: some fields of each level.
func fieldsOf(t *rapid.T, target string) any {
	some := func(label string, fields map[string]func() any) map[string]any {
		made := map[string]any{}
		for _, name := range sortedNames(fields) {
			if rapid.IntRange(0, 2).Draw(t, label+" "+name) == 0 {
				made[name] = fields[name]()
			}
		}
		return made
	}
	anyValue := func() any { return value(t) }
	if target == kubeadmpatch.Kubelet {
		return some("kubelet", map[string]func() any{"maxPods": anyValue, "evictionHard": anyValue, "enforceNodeAllocatable": anyValue, "featureGates": anyValue, "logging": anyValue})
	}
	texts := func() any { return some("texts", map[string]func() any{"a": anyValue, "component": anyValue}) }
	container := func() any {
		made := some("container", map[string]func() any{"resources": anyValue})
		made["name"] = rapid.SampledFrom([]string{target, target, "proxy", "new"}).Draw(t, "name")
		if rapid.IntRange(0, 9).Draw(t, "more") == 0 {
			made[rapid.SampledFrom([]string{"image", "command", "$patch", "$retainKeys"}).Draw(t, "field")] = value(t)
		}
		return made
	}
	patch := some("pod", map[string]func() any{
		"metadata": func() any { return some("metadata", map[string]func() any{"annotations": texts, "labels": anyValue}) },
		"spec":     func() any { return map[string]any{"containers": []any{container()}} },
	})
	if rapid.IntRange(0, 9).Draw(t, "evil") == 0 {
		patch[rapid.SampledFrom([]string{"kind", "status", "$patch", "$retainKeys", "$setElementOrder/spec"}).Draw(t, "evil field")] = value(t)
	}
	return patch
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestOrderOfFiles: the product applies files in the order of kubeadm. One file removes all labels, and
// another one adds a label, which does not apply to a Pod without labels.
func TestOrderOfFiles(t *testing.T) {
	t.Parallel()
	names := []string{
		"etcd%s.json", "etcd0%s.json", "etcd10%s.json", "etcd2%s.json", "a/etcd%s.json", "a.json/etcd%s.json", "a+/etcd%s.json", "A/etcd%s.yaml", "etcd/etcd%s.json",
		"etcd-a/etcd%s.yaml", "a/b/etcd%s.json", "a-/etcd%s.json",
	}
	failures := 0
	for _, removes := range names {
		for _, adds := range names {
			removes, adds := fmt.Sprintf(removes, "+merge"), fmt.Sprintf(adds, "+json")
			files := map[string]string{removes: `{"metadata": {"labels": null}}`, adds: `[{"op": "add", "path": "/metadata/labels/a", "value": "b"}]`}
			var list []kubeadmpatch.File
			for name, content := range files {
				list = append(list, kubeadmpatch.File{Path: name, Content: []byte(content)})
			}
			document := []byte(hosts[0]["etcd"])
			_, want := applyWithKubeadm(folder(t, t.TempDir(), files), "etcd", document)
			got := kubeadmpatch.CheckEffect(t.Context(), "etcd", document, list)
			if (want == nil) != (got == nil) {
				t.Errorf("%s and %s: %v, kubeadm: %v", removes, adds, got, want)
			}
			if want != nil {
				failures++
			}
		}
	}
	if failures < 20 {
		t.Errorf("kubeadm fails in %d orders only", failures)
	}
}

// TestTargets: each target of kubeadm is known, and no patch of it adds a container.
func TestTargets(t *testing.T) {
	t.Parallel()
	for _, target := range patches.KnownTargets() {
		if got := kubeadmpatch.Target(target + ".yaml"); got != target {
			t.Errorf("the target of %s.yaml is %q", target, got)
		}
		for _, patch := range []string{
			"spec: {containers: [{name: x}]}", "spec: {template: {spec: {containers: [{name: x}]}}}",
		} {
			if kubeadmpatch.Check(t.Context(), target+".yaml", []byte(patch)) == nil {
				t.Errorf("a patch of %s is accepted: %s", target, patch)
			}
		}
	}
}
