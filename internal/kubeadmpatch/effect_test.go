package kubeadmpatch_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
)

// present is what a host has of a target.
func present(target string) string {
	if target == kubeadmpatch.Kubelet {
		return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi}\n" +
			"staticPodPath: /etc/kubernetes/manifests\nclusterDNS: [10.96.0.10]\n"
	}
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {kubeadm.kubernetes.io/hash: x}\n  labels: {component: " + target + "}\n  name: " + target + "\n" +
		"  namespace: kube-system\nspec:\n  containers:\n  - command: [" + target + "]\n    image: registry.example/" + target + ":v1\n    name: " + target + "\n" +
		"    resources: {requests: {cpu: 250m}}\n  hostNetwork: true\n"
}

func TestCheckEffect(t *testing.T) {
	t.Parallel()
	pod := present("etcd")
	for _, tt := range []struct {
		name, target, present string
		files                 []kubeadmpatch.File
		// want is in the error; empty for none.
		want string
	}{
		{"no patch", "etcd", pod, nil, ""},
		{"a patch of another target", "etcd", pod, []kubeadmpatch.File{{Path: "kube-apiserver.yaml", Content: []byte("spec: {hostPID: true}")}}, ""},
		{"resources", "etcd", pod, []kubeadmpatch.File{{Path: "etcd.yaml", Content: []byte("spec: {containers: [{name: etcd, resources: {limits: {cpu: 1}}}]}")}}, ""},
		{"a removal that was done before", "etcd", pod, []kubeadmpatch.File{{Path: "etcd+json.yaml", Content: []byte(`[{"op": "remove", "path": "/metadata/labels/gone"}, {"op": "add", "path": "/metadata/labels/a", "value": "b"}]`)}}, ""},
		{"a replacement of what the patches remove", "etcd", pod, []kubeadmpatch.File{{Path: "etcd+json.yaml", Content: []byte(
			`[{"op": "replace", "path": "/spec/containers/0/resources/limits/cpu", "value": 1}, {"op": "remove", "path": "/spec/containers/0/resources/limits"}]`)}}, ""},
		{"a replacement of what the next version has", "etcd", pod, []kubeadmpatch.File{{Path: "etcd+json.yaml", Content: []byte(
			`[{"op": "replace", "path": "/spec/containers/1/resources/limits/memory", "value": "1Gi"}]`)}}, ""},
		{"a replacement of what is not safe", "etcd", pod, []kubeadmpatch.File{{Path: "etcd+json.yaml", Content: []byte(
			`[{"op": "replace", "path": "/metadata/gone/a", "value": "b"}, {"op": "replace", "path": "/spec/hostNetwork", "value": false}]`)}}, "would change spec.hostNetwork"},
		// kubeadm walks a folder in the order of names in it: a before a.json.
		{"the order of files", "etcd", pod, []kubeadmpatch.File{
			{Path: "a.json/etcd+merge.json", Content: []byte(`{"metadata": {"annotations": null}}`)},
			{Path: "a/etcd+json.json", Content: []byte(`[{"op": "add", "path": "/metadata/annotations/b", "value": "c"}]`)},
		}, ""},
		{"another image", "etcd", pod, []kubeadmpatch.File{{Path: "etcd.yaml", Content: []byte("spec: {containers: [{name: etcd, image: x}]}")}},
			"the patches for kubeadm would change spec.containers in the manifest of etcd of the host, which can run anything as root. Fix: "},
		{"the kubelet's pods", kubeadmpatch.Kubelet, present(kubeadmpatch.Kubelet), []kubeadmpatch.File{{Path: "kubeletconfiguration.yaml", Content: []byte("staticPodPath: /x")}},
			"would change staticPodPath in the kubelet's configuration of the host"},
		{"a field without a name", "etcd", pod, []kubeadmpatch.File{{Path: "etcd+json.json", Content: []byte(add("/", `"b"`))}}, "would change all in"},
		{"a panic of the library", "etcd", pod, []kubeadmpatch.File{{Path: "etcd.json", Content: []byte("$retainKeys: [{a: b}]")}}, "does not apply"},
		{"copy", "etcd", pod, []kubeadmpatch.File{{Path: "etcd+json.json", Content: []byte(copied)}}, "would change spec.containers"},
		{"a container of another name", "etcd", strings.Replace(pod, "name: etcd\n    res", "name: other\n    res", 1),
			[]kubeadmpatch.File{{Path: "etcd.yaml", Content: []byte("spec: {containers: [{name: etcd, resources: {}}]}")}}, "would change spec.containers"},
		{"no annotations", "etcd", "kind: Pod\nmetadata: {}", []kubeadmpatch.File{{Path: "etcd+json.json", Content: []byte(add("/metadata/annotations/a", `"b"`))}},
			"the patch etcd+json.json for kubeadm does not apply to what the host has, so kubeadm would fail. Fix: "},
		{"no metadata", "etcd", "kind: Pod", []kubeadmpatch.File{{Path: "etcd.json", Content: []byte("metadata: {labels: {a: b}}")}}, "would change metadata"},
		{"no YAML", "etcd", "a: [secret", []kubeadmpatch.File{{Path: "etcd.json", Content: []byte("{}")}}, "the manifest of etcd of the host cannot be read"},
		{"many operations in many files", "etcd", pod, []kubeadmpatch.File{
			{Path: "etcd0.yaml", Content: []byte(strings.Repeat("{}\n---\n", 200))}, {Path: "etcd1.yaml", Content: []byte(strings.Repeat("{}\n---\n", 200))},
		}, "the patch etcd1.yaml for kubeadm cannot be applied: it has more than 256 operations, with those of other files. Fix: "},
	} {
		err := kubeadmpatch.CheckEffect(t.Context(), tt.target, []byte(tt.present), tt.files)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestCheckEffectIsBounded: each operation costs about as much as the document is long.
func TestCheckEffectIsBounded(t *testing.T) {
	// Not parallel: it counts bytes.
	large := present("etcd") + "  x: " + strings.Repeat("y", 50<<10) + "\n"
	patch := func(n int) []kubeadmpatch.File {
		return []kubeadmpatch.File{{Path: "etcd+json.json", Content: []byte("[" + strings.Repeat(`{"op": "add", "path": "/metadata/labels/a", "value": "b"},`, n-1) +
			`{"op": "add", "path": "/metadata/labels/a", "value": "b"}]`)}}
	}
	var errs [2]error
	one := allocated(func() { errs[0] = kubeadmpatch.CheckEffect(t.Context(), "etcd", []byte(large), patch(1)) })
	most := allocated(func() { errs[1] = kubeadmpatch.CheckEffect(t.Context(), "etcd", []byte(large), patch(256)) })
	if errs[0] != nil || errs[1] != nil || most > one+256*8*uint64(len(large)) {
		t.Errorf("one operation takes %d bytes, 256 take %d; %v", one, most, errs)
	}
}
