package kubeadmpatch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// copied is an attack: it copies the whole spec of a Pod out of an annotation.
const copied = `[{"op": "add", "path": "/metadata/annotations", "value": {"a": {"hostPID": true}}},
{"op": "copy", "from": "/metadata/annotations/a", "path": "/spec"},
{"op": "remove", "path": "/metadata/annotations/a"}]`

func add(path, value string) string {
	return fmt.Sprintf(`[{"op": "add", "path": %q, "value": %s}]`, path, value)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const fixPod = "Fix: patch only annotations, labels and the container's resources"
	const root = ", which can run anything as root on the host"
	const coreDNS = "changes the Deployment of CoreDNS, which can run anything as root on the hosts of the cluster. Fix: remove it"
	for _, tt := range []struct {
		name, file, content string
		// want is in the error; empty for none.
		want string
	}{
		{"no patch", "README.md", "spec: {hostPID: true}", ""},
		{"another extension", "etcd.yml", "spec: {hostPID: true}", ""},
		{"empty", "etcd.json", "", ""},
		{"empty documents", "etcd.yaml", "---\n---\n# nothing\n", ""},
		{"resources", "etcd.yaml", "spec: {containers: [{name: etcd, resources: {limits: {memory: 1Gi}, requests: {cpu: 1}}}]}", ""},
		{"no resources", "etcd.yaml", "spec: {containers: [{name: etcd, resources: null}]}", ""},
		{"annotations and labels", "etcd+merge.yaml", "metadata: {annotations: {a: b, c: null}, labels: null}", ""},
		{"what the Pod is", "etcd.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd, namespace: kube-system}\nspec: {}", ""},
		{"all annotations replaced", "etcd.yaml", `metadata: {annotations: {$patch: replace, a: b}}`, ""},
		{"operations", "etcd+json.yaml", `[{op: remove, path: /metadata/annotations/a~1b}, {op: replace, path: /metadata/labels, value: {a: b}},
			{op: add, path: /spec/containers/0/resources/limits/cpu, value: 2}, {op: remove, path: /spec/containers/1/resources}]`, ""},
		{"the kubelet's numbers", "kubeletconfiguration.yaml", "maxPods: 50\n---\nsystemReserved: {cpu: 1}", ""},
		{"the kubelet by operations", "kubeletconfiguration+json.yaml", add("/featureGates", `{"A": true}`), ""},

		{"CoreDNS", "corednsdeployment.yaml", "spec: {template: {spec: {hostPID: true}}}", coreDNS},
		{"replicas of CoreDNS", "corednsdeployment0+merge.json", `{"spec": {"replicas": 3}}`, coreDNS},
		{"CoreDNS, empty", "corednsdeployment+json.yaml", "", coreDNS},
		{"copy", "kube-apiserver0+json.json", copied, "the patch for kubeadm has operation 1, which sets metadata.annotations.a to something other than text. " + fixPod},
		{"copy of text", "etcd+json.json", `[{"op": "copy", "from": "/metadata/annotations/a", "path": "/metadata/labels/a"}]`, "operation 1, which is none of add, replace and remove"},
		{"move", "etcd+json.json", `[{"op": "move", "from": "/spec", "path": "/metadata/annotations"}]`, "is none of add, replace and remove"},
		{"test", "etcd+json.json", `[{"op": "test", "path": "/metadata/annotations/a", "value": "x"}]`, "is none of add, replace and remove"},
		{"an unknown operation", "etcd+json.json", `[{"op": 1, "path": "/metadata/annotations/a", "value": "x"}]`, "is none of add, replace and remove"},
		{"no operation", "etcd+json.json", `[1]`, "operation 1, which is not an object"},
		{"no list", "etcd+json.json", `{"op": "add"}`, "is not a list of operations"},
		{"no path", "etcd+json.json", `[{"op": "add", "value": "x"}]`, "operation 1, which has no path"},
		{"a path that begins with a word", "etcd+json.json", add("x/metadata/annotations/a", `"b"`), "one that does not begin with /"},
		{"a long path", "etcd+json.json", add("/metadata/annotations"+strings.Repeat("/a", 20), `"b"`), "is too long"},
		{"a null", "kubeletconfiguration+json.json", `[{"op": "add", "path": "/featureGates", "value": null}, {"op": "add", "path": "/featureGates/A", "value": true}]`, "operation 1, which has no value"},
		{"a value is missing", "etcd+json.json", `[{"op": "add", "path": "/metadata/labels/a"}]`, "has no value"},
		{"a number as an annotation", "etcd+json.json", add("/metadata/annotations/a", "1"), "sets metadata.annotations.a to something other than text"},
		{"an object as a label", "etcd+merge.yaml", "metadata: {labels: {a: {b: c}}}", "sets metadata.labels.a to something other than text"},
		{"below an annotation", "etcd+json.json", add("/metadata/annotations/a/b", `"c"`), "sets metadata.annotations.a to something other than text"},
		{"a list as resources", "etcd+json.json", add("/spec/containers/0/resources", "[]"), "sets spec.containers.0.resources to something other than an object"},
		{"claims", "etcd.yaml", "spec: {containers: [{name: etcd, resources: {claims: [{name: a}]}}]}", "sets spec.containers.0.resources.claims" + root},
		{"an object as a limit", "etcd.yaml", "spec: {containers: [{name: etcd, resources: {limits: {cpu: {a: b}}}}]}", "resources.limits.cpu to something other than a quantity"},
		{"above all safe fields", "etcd+json.json", `[{"op": "remove", "path": "/metadata"}]`, "sets metadata" + root},
		{"a whole container", "etcd+json.json", `[{"op": "replace", "path": "/spec/containers/0", "value": {"name": "etcd"}}]`, "sets spec.containers.0" + root},
		{"one more container", "etcd+json.json", add("/spec/containers/-/resources", "{}"), "sets spec.containers.-.resources" + root},
		{"the last container", "etcd+json.json", add("/spec/containers/-1/resources", "{}"), "sets spec.containers.-1.resources" + root},
		{"the whole document", "etcd+json.json", `[{"op": "replace", "path": "", "value": {}}]`, "sets " + root},
		{"a host", "etcd.yaml", "spec: {hostPID: true}", "the patch for kubeadm sets spec.hostPID" + root + ". " + fixPod},
		{"an image", "etcd.yaml", "spec: {containers: [{name: etcd, image: x}]}", "sets spec.containers.0.image" + root},
		{"another container", "etcd.yaml", "spec: {containers: [{name: evil, resources: {}}]}", "sets spec.containers.0.name to something other than etcd"},
		{"a container without a name", "etcd.yaml", "spec: {containers: [{resources: {}}]}", "sets spec.containers.0.name to something other than etcd"},
		{"all containers", "etcd+merge.yaml", "spec: {containers: [{name: etcd, resources: {}}]}", "sets spec.containers" + root},
		{"a directive", "etcd.yaml", "spec: {$patch: replace}", "sets spec.$patch" + root},
		{"an order", "etcd.yaml", "spec: {$setElementOrder/containers: [{name: etcd}]}", "sets spec.$setElementOrder/containers" + root},
		{"another kind", "etcd.yaml", "kind: Deployment", "sets kind to something other than Pod"},
		{"no metadata", "etcd+merge.yaml", "metadata: null", "sets metadata to something other than an object"},
		{"a list", "etcd+merge.yaml", "[]", "sets the whole document to something other than an object"},
		{"text", "etcd.yaml", "x", "sets the whole document to something other than an object"},
		{"the second document", "etcd.yaml", "metadata: {labels: {a: b}}\n--- # next\nspec: {hostIPC: true}", "sets spec.hostIPC" + root},
		{"no separator", "etcd.yaml", "metadata: {}\n--- x\nspec: {hostIPC: true}", "a line begins with --- and has more than a comment"},
		{"the kubelet's object replaced", "kubeletconfiguration.yaml", "evictionHard: {$patch: replace, a: b}", ""},
		{"a directive in the kubelet's object", "kubeletconfiguration.yaml", "logging: {options: {$retainKeys: [{a: b}]}}", "sets logging.options.$retainKeys" + root},
		{"a directive in a list", "kubeletconfiguration.yaml", "reservedMemory: [{$setElementOrder/a: []}]", "sets reservedMemory.0.$setElementOrder/a" + root},
		{"the kubelet's pods", "kubeletconfiguration.yaml", "staticPodPath: /x", "sets staticPodPath" + root + ". Fix: patch only numbers"},
		{"the kubelet's whole configuration", "kubeletconfiguration.yaml", "$patch: replace\nmaxPods: 1", "sets $patch" + root},
		{"another type", "etcd+yaml.yaml", "{}", "kubeadm does not know the type of the patch. Fix: name it etcd+json.yaml"},
		{"a type that is cut off", "etcd0+.json", "{}", "kubeadm does not know the type"},
		{"a type with more behind", "etcd+jsonish.json", "{}", "is not a list of operations"},
		{"equal keys", "etcd.yaml", "kind: Pod\nkind: Pod", "cannot be read: it is not valid YAML"},
		{"many operations", "etcd+json.yaml", "[" + strings.Repeat("{op: remove, path: /metadata/labels},", 257) + "]", "more than 256 operations"},
		{"many documents", "etcd.yaml", strings.Repeat("{}\n---\n", 257), "more than 256 operations"},
	} {
		err := kubeadmpatch.Check(t.Context(), tt.file, []byte(tt.content))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if problem, fix, ok := strings.Cut(fmt.Sprint(err), "Fix: "); err != nil && (!ok || fix == "" || len(problem) > 200) {
			t.Errorf("%s: the error has no Fix, or %d bytes before it: %v", tt.name, len(problem), err)
		}
	}
}

// TestCheckIsBounded has patches that are deep, wide, or made larger by aliases. Each is refused, and
// memory follows the size of the patch.
func TestCheckIsBounded(t *testing.T) {
	// Not parallel: it counts bytes.
	deep := func(n int) string {
		return "metadata: {annotations: " + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + "}"
	}
	wide := func(n int) string {
		var b strings.Builder
		b.WriteString("metadata: {labels: {")
		for i := range n {
			fmt.Fprintf(&b, "a%d: b, ", i)
		}
		return b.String() + "z: 1}}"
	}
	alias := "a: &a [1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e]\ng: [*f,*f,*f,*f]\n"
	for name, tt := range map[string]struct {
		content string
		kind    untrusted.Kind
	}{
		"deep":          {deep(9_000), untrusted.Depth},
		"not that deep": {deep(1_800), untrusted.Depth},
		"wide":          {wide(3_900), ""},
		"wider":         {wide(4_100), untrusted.Nodes},
		"long":          {"# " + strings.Repeat("x", kubeadmpatch.MaxBytes), untrusted.Bytes},
		"dense":         {"[" + strings.Repeat("1,", 32_000) + "1]", untrusted.Nodes},
		"aliases":       {alias, untrusted.Nodes},
		"aliases often": {strings.Repeat("a: &a "+strings.Repeat("x", 900)+"\nb: [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n---\n", 60), untrusted.Bytes},
	} {
		var err error
		took := allocated(func() { err = kubeadmpatch.Check(t.Context(), "etcd0+merge.yaml", []byte(tt.content)) })
		limit, ok := errors.AsType[*untrusted.LimitError](err)
		if err == nil || ok != (tt.kind != "") || ok && limit.Kind != tt.kind {
			t.Errorf("%s: %v, want the limit of %s", name, err, tt.kind)
		}
		// A YAML node takes about 200 bytes, also in a text of 2 bytes.
		if most := uint64(kubeadmpatch.MaxBytes+len(tt.content)) * 200; took > most {
			t.Errorf("%s: %d bytes take %d of memory, want %d at most", name, len(tt.content), took, most)
		}
	}
	half, whole := allocated(func() { _ = kubeadmpatch.Check(t.Context(), "etcd.yaml", []byte(wide(1_950))) }),
		allocated(func() { _ = kubeadmpatch.Check(t.Context(), "etcd.yaml", []byte(wide(3_900))) })
	if whole > half*5/2 {
		t.Errorf("twice the patch takes %d bytes of memory in place of %d", whole, half)
	}
}

// allocated counts the bytes that a function allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestCheckIsCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := kubeadmpatch.Check(ctx, "etcd.yaml", []byte("metadata: {}")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	err := kubeadmpatch.CheckEffect(ctx, "etcd", []byte("kind: Pod"), []kubeadmpatch.File{{Path: "etcd.yaml", Content: []byte("metadata: {}")}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestPatchesInDocumentation has patches that documentation of kubeadm and kubespray shows, and what
// documentation of Kubernetes says about reserved resources, graceful shutdown and swap: the fields
// that they set, with values of our own. Each is within what docs/how-to/upgrade-linux-hosts.md
// promises, so none may be refused, alone or on a host.
func TestPatchesInDocumentation(t *testing.T) {
	t.Parallel()
	const metadata = "metadata:\n  annotations:\n    example.com/a: \"true\"\n  labels:\n    example.com/b: c\n"
	resources := func(target string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + target + "\n  namespace: kube-system\n" +
			"spec:\n  containers:\n  - name: " + target + "\n    resources:\n      requests:\n        cpu: 500m\n        memory: 1Gi\n"
	}
	patches := []struct{ name, content string }{
		{"kubeletconfiguration0+merge.yaml", "systemReserved:\n  cpu: 500m\nkubeReserved:\n  memory: 1Gi\nevictionHard:\n  memory.available: 5%\n"},
		{"kubeletconfiguration0+strategic.json", `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "protectKernelDefaults": true,}`},
		{"kubeletconfiguration1.yaml", "shutdownGracePeriod: 45s\nshutdownGracePeriodCriticalPods: 10s\n"},
		{"kubeletconfiguration2.yaml", "failSwapOn: false\nmemorySwap:\n  swapBehavior: LimitedSwap\nfeatureGates:\n  NodeSwap: true\n"},
		{"kubeletconfiguration+json.yaml", "- op: add\n  path: /maxPods\n  value: 250\n- op: replace\n  path: /evictionHard/memory.available\n  value: 500Mi\n"},
	}
	for _, target := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		for _, kind := range []string{".json", "0+merge.yaml", "1+strategic.yaml"} {
			patches = append(patches, struct{ name, content string }{target + kind, metadata})
		}
		patches = append(patches, struct{ name, content string }{target + "2.yaml", resources(target)})
	}
	refused := 0
	for _, p := range patches {
		target := kubeadmpatch.Target(p.name)
		err := kubeadmpatch.Check(t.Context(), p.name, []byte(p.content))
		if err == nil {
			err = kubeadmpatch.CheckEffect(t.Context(), target, []byte(present(target)), []kubeadmpatch.File{{Path: p.name, Content: []byte(p.content)}})
		}
		if err != nil {
			refused++
			t.Errorf("%s: %v", p.name, err)
		}
	}
	t.Logf("%d of %d patches are refused", refused, len(patches))
}

// FuzzPatch: a patch for the kubelet's configuration that is accepted names no static pods, however it
// is written.
func FuzzPatch(f *testing.F) {
	for _, text := range []string{
		"maxPods: 50", "staticPodPath: /x", "maxPods: 1\n---\nstaticPodPath: /x", `{"maxPods": 1}`, `[{"op": "add", "path": "/staticPodPath", "value": "/x"}]`,
		"a: &x {staticPodPath: /y}\n<<: *x", `[{"op": "copy", "from": "/staticPodPath", "path": "/maxPods"}]`, "\"static\\u0050odPath\": /x",
	} {
		f.Add("kubeletconfiguration.yaml", text)
		f.Add("kubeletconfiguration+json.yaml", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if kubeadmpatch.Target(name) != kubeadmpatch.Kubelet || kubeadmpatch.Check(t.Context(), name, []byte(text)) != nil {
			return
		}
		// It applies, or kubeadm would fail. Either way it changes nothing else.
		err := kubeadmpatch.CheckEffect(t.Context(), kubeadmpatch.Kubelet, []byte(present(kubeadmpatch.Kubelet)), []kubeadmpatch.File{{Path: "a/" + name, Content: []byte(text)}})
		if err != nil && strings.Contains(err.Error(), "would change") {
			t.Fatal(err)
		}
	})
}
