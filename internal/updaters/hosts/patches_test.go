package hosts_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
)

// copied is a patch that copies the spec of a Pod out of an annotation.
const copied = `[{"op": "add", "path": "/metadata/annotations", "value": {"a": {"hostPID": true}}},
	{"op": "copy", "from": "/metadata/annotations/a", "path": "/spec"}, {"op": "remove", "path": "/metadata/annotations/a"}]`

// coreDNS is a patch that has a Pod of the cluster run as root on a host.
const coreDNS = `spec: {template: {spec: {hostPID: true, containers: [{name: coredns, securityContext: {privileged: true}}]}}}`

// TestPatchesThatAreRefused: a host gets all patches of a config, or no update. A file without its
// name in the answer would be one that kubeadm takes as it finds it.
func TestPatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	const folder, patch = "/etc/kubernetes/p", "/etc/kubernetes/p/etcd.json"
	inSecret := fields{"secret": fields{"name": "n", "key": "k"}}
	for name, tt := range map[string]struct {
		files   []any
		allowed []string
		worker  bool
		// want is in the answer; empty for an update that begins.
		want string
	}{
		"a worker's CoreDNS":    {worker: true, files: []any{fields{"path": folder + "/corednsdeployment.yaml", "content": coreDNS}}},
		"a worker's static pod": {worker: true, files: []any{fields{"path": patch, "content": "spec: {hostPID: true}"}}},
		"a worker's kubelet": {worker: true, files: []any{fields{"path": folder + "/kubeletconfiguration.yaml", "content": "staticPodPath: /x"}},
			want: "/kubeletconfiguration.yaml: the patch for kubeadm sets staticPodPath"},
		"a worker's Secret": {worker: true, files: []any{fields{"path": folder + "/corednsdeployment.yaml", "contentFrom": inSecret}},
			want: folder + "/corednsdeployment.yaml: its content is in a Secret"},
		"numbers":             {files: []any{fields{"path": folder + "/kubeletconfiguration.yaml", "content": "maxPods: 50"}}},
		"a static pod's host": {files: []any{fields{"path": patch, "content": "spec: {hostPID: true}"}}, want: patch + ": the patch for kubeadm sets spec.hostPID"},
		"a copied Pod":        {files: []any{fields{"path": folder + "/kube-apiserver0+json.json", "content": copied}}, want: "kube-apiserver0+json.json: the patch for kubeadm has operation 1, which sets metadata.annotations.a"},
		"copied text":         {files: []any{fields{"path": folder + "/etcd+json.json", "content": `[{"op": "copy", "from": "/metadata/annotations/a", "path": "/metadata/labels/a"}]`}}, want: "is none of add, replace and remove. Fix: "},
		"deep":                {files: []any{fields{"path": patch, "content": "metadata: {annotations: " + strings.Repeat(`{"a":`, 1_800) + "1" + strings.Repeat("}", 1_801)}}, want: "nests deeper than 16 levels. Fix: "},
		"CoreDNS":             {files: []any{fields{"path": folder + "/corednsdeployment.yaml", "content": coreDNS}}, want: "/corednsdeployment.yaml: the patch for kubeadm changes the Deployment of CoreDNS"},
		"CoreDNS is allowed":  {files: []any{fields{"path": folder + "/corednsdeployment.yaml", "content": coreDNS}}, allowed: []string{"/etc/kubernetes", folder + "/corednsdeployment.yaml"}},
		"another of CoreDNS": {files: []any{
			fields{"path": folder + "/corednsdeployment.yaml", "content": coreDNS},
			fields{"path": folder + "/corednsdeployment1.yaml", "content": coreDNS},
		}, allowed: []string{"/etc/kubernetes", folder + "/corednsdeployment.yaml"}, want: "/corednsdeployment1.yaml: the patch"},
		"any content is allowed":   {files: []any{fields{"path": patch, "content": "spec: {hostPID: true}"}}, allowed: []string{"/etc/kubernetes", patch}},
		"a Secret":                 {files: []any{fields{"path": folder + "/a/etcd.yaml", "contentFrom": inSecret}}, want: folder + "/a/etcd.yaml: its content is in a Secret"},
		"a Secret, and no patch":   {files: []any{fields{"path": folder + "/README", "contentFrom": inSecret}}},
		"two entries":              {files: []any{fields{"path": patch, "content": "metadata: {}"}, fields{"path": patch, "content": "spec: {}"}}, want: patch + " has two entries"},
		"another spelling":         {files: []any{fields{"path": folder + "//etcd.json", "content": "metadata: {}"}}, want: "is not a clean absolute path"},
		"a field of another world": {files: []any{fields{"path": "/etc/kubernetes/x", "content": "x", "immutable": true}}, want: "files has a field that is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), request("a-1")
			w.config.AllowedPathPrefixes = tt.allowed
			if !tt.worker {
				r.Desired.Machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
			}
			r.Desired.BootstrapConfig.Object = kubeadmConfig(fields{
				"files": tt.files, "joinConfiguration": fields{"patches": fields{"directory": folder}},
			})
			answer := w.updater(t).UpdateMachine(t.Context(), r)
			if tt.want == "" {
				if answer.Outcome != inplace.InProgress {
					t.Errorf("the answer is %+v", answer)
				}
				return
			}
			if answer.Outcome != inplace.Fails || !strings.HasPrefix(answer.Message, "FileRefused: ") || !strings.Contains(answer.Message, tt.want) {
				t.Errorf("the answer is %+v", answer)
			}
			if w.execs > 0 {
				t.Errorf("%d scripts ran", w.execs)
			}
		})
	}
}

// TestConfigThatNobodyKnows: without the Machine's config, kubeadm would upgrade the host without the
// patches in it.
func TestConfigThatNobodyKnows(t *testing.T) {
	t.Parallel()
	older := kubeadmConfig(map[string]any{})
	older.SetAPIVersion("bootstrap.cluster.x-k8s.io/v1beta1")
	for name, tt := range map[string]struct {
		config apiruntime.RawExtension
		// ref is the name of the config that the Machine refers to, want the answer; empty for an
		// update that begins.
		ref, want string
	}{
		"a Machine without one": {},
		"it is gone": {ref: "m-config", want: "HostSetupInvalid: the Machine's bootstrap config m-config " +
			"is gone, so nobody knows the patches for kubeadm, which would upgrade the host without them. " +
			"Fix: create the config again and annotate the Machine with windlass.dev/update-retry, or end " +
			"the update with windlass.dev/update-abandon"},
		"another version": {ref: "m-config", config: apiruntime.RawExtension{Object: older}, want: "HostSetupInvalid: " +
			"the bootstrap config is a KubeadmConfig of bootstrap.cluster.x-k8s.io/v1beta1, so nobody knows " +
			"the patches for kubeadm, which would upgrade the host without them. Fix: use a KubeadmConfig " +
			"of bootstrap.cluster.x-k8s.io/v1beta2, or replace the Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), request("a-1")
			r.Desired.BootstrapConfig = tt.config
			r.Desired.Machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{Name: tt.ref}
			want := inplace.Answer{Outcome: inplace.Fails, Message: tt.want}
			answer := w.updater(t).UpdateMachine(t.Context(), r)
			switch {
			case tt.want != "":
				checkAnswer(t, answer, want)
			case answer.Outcome != inplace.InProgress:
				t.Errorf("the answer is %+v", answer)
			}
			if tt.want != "" && w.execs > 0 {
				t.Errorf("%d scripts ran", w.execs)
			}
		})
	}
}

// TestEffectOfPatches has patches that are safe alone, and hosts on which they are not, or on which
// nobody knows. The host is asked again each time, so that kubeadm runs only after a look that found
// the patches to be safe.
func TestEffectOfPatches(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	const folder, manifests = "/etc/kubernetes/p", "/etc/kubernetes/manifests/"
	pod := func(name string) string {
		return "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: " + name + ", image: y}]}\n"
	}
	resources := func(target string) fields {
		return fields{"path": folder + "/" + target + ".yaml", "content": "spec: {containers: [{name: " + target + ", resources: {limits: {cpu: 1}}}]}"}
	}
	worker, server := []string(nil), []string{"control-plane", "kubectl", "member", "etcd-client"}
	for name, tt := range map[string]struct {
		patch   fields
		roles   []string
		present map[string]string
		allowed []string
		// want is in the answer; empty for an update that begins.
		want string
	}{
		"the usual container":        {patch: resources("etcd"), roles: server, present: map[string]string{manifests + "etcd.yaml": pod("etcd")}},
		"another container":          {patch: resources("etcd"), roles: server, present: map[string]string{manifests + "etcd.yaml": pod("other")}, want: "step kubeadm-upgrade: the patches for kubeadm would change spec.containers in the manifest of etcd of the host"},
		"another container, allowed": {patch: resources("etcd"), roles: server, present: map[string]string{manifests + "etcd.yaml": pod("other")}, allowed: []string{"/etc/kubernetes", folder + "/etcd.yaml"}},
		"what is no YAML":            {patch: resources("etcd"), roles: server, present: map[string]string{manifests + "etcd.yaml": "a: ["}, want: "the effect of patches is unknown: the manifest of etcd of the host cannot be read"},
		"a large manifest":           {patch: resources("etcd"), roles: server, present: map[string]string{manifests + "etcd.yaml": pod("etcd") + strings.Repeat("#", 64<<10)}, want: "it has more than 65536 bytes"},
		"no manifest":                {patch: resources("kube-apiserver"), roles: server, want: "so their effect is unknown. Fix: restore /etc/kubernetes/manifests/kube-apiserver.yaml"},
		"etcd elsewhere":             {patch: resources("etcd"), roles: []string{"control-plane", "kubectl"}},
		"a worker":                   {patch: resources("kube-apiserver"), roles: worker},
		"a control plane, by its Machine a worker": {patch: fields{"path": folder + "/etcd.yaml", "content": "spec: {hostPID: true}"}, roles: server,
			present: map[string]string{manifests + "etcd.yaml": pod("etcd")}, want: "file etcd.yaml: the patch for kubeadm sets spec.hostPID"},
		"no kubelet configuration": {patch: fields{"path": folder + "/kubeletconfiguration.yaml", "content": "maxPods: 1"}, roles: worker, present: map[string]string{"/var/lib/kubelet/config.yaml": ""}, want: "Fix: restore /var/lib/kubelet/config.yaml"},
		"what does not apply":      {patch: fields{"path": folder + "/kubeletconfiguration+json.yaml", "content": `[{"op": "add", "path": "/evictionHard/a", "value": "1"}]`}, roles: worker, want: "the patch kubeletconfiguration+json.yaml for kubeadm does not apply to what the host has, so kubeadm would fail. Fix: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), request("a-1")
			w.roles, w.config.EtcdSnapshot, w.config.AllowedPathPrefixes = tt.roles, v1alpha1.EtcdSnapshotSkip, tt.allowed
			for path, content := range tt.present {
				if w.files[path] = content; content == "" {
					delete(w.files, path)
				}
			}
			r.Desired.BootstrapConfig.Object = kubeadmConfig(fields{
				"files": []any{tt.patch}, "joinConfiguration": fields{"patches": fields{"directory": folder}},
			})
			answer := w.updater(t).UpdateMachine(t.Context(), r)
			switch {
			case tt.want == "" && answer.Outcome != inplace.InProgress:
				t.Errorf("the answer is %+v", answer)
			case tt.want != "" && (answer.Outcome != inplace.Fails || !strings.HasPrefix(answer.Message, "FileRefused: ") || !strings.Contains(answer.Message, tt.want)):
				t.Errorf("the answer is %+v", answer)
			case tt.want != "" && w.job.state != "":
				t.Errorf("step %s was begun", w.job.step)
			}
		})
	}
}

// TestPatchesAndTheDeadline: a patch that was not checked in time is no reason to end an update.
func TestPatchesAndTheDeadline(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), request("a-1")
	ctx, cancel := context.WithCancel(t.Context())
	r.Desired.BootstrapConfig.Object = kubeadmConfig(map[string]any{
		"files":             []any{map[string]any{"path": "/etc/kubernetes/p/kubeletconfiguration.yaml", "content": "maxPods: 1"}},
		"joinConfiguration": map[string]any{"patches": map[string]any{"directory": "/etc/kubernetes/p"}},
	})
	options := w.options()
	machine := options.Machine
	options.Machine = func(ctx context.Context, name types.NamespacedName) (hosts.Machine, error) {
		cancel()
		return machine(ctx, name)
	}
	u, err := hosts.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if answer := u.UpdateMachine(ctx, r); answer.Outcome != inplace.Unknown || !strings.Contains(answer.Message, "reading the files of the bootstrap config: context canceled") {
		t.Errorf("the answer is %+v", answer)
	}
}

// TestManyCompressedFiles: a config of less than 1.5 MiB, which the API server stores, has files of
// 250 MiB. The process decodes 1 MiB of them.
func TestManyCompressedFiles(t *testing.T) {
	// Not parallel: it counts bytes.
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(make([]byte, 256<<10)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	content := base64.StdEncoding.EncodeToString(packed.Bytes())
	config := func(n int) *unstructured.Unstructured {
		var files []any
		for i := range n {
			files = append(files, map[string]any{"path": fmt.Sprintf("/etc/kubernetes/%04d", i), "encoding": "gzip+base64", "content": content})
		}
		return kubeadmConfig(map[string]any{"files": files})
	}
	const want = "FileRefused: the files of the bootstrap config have more than 1 MiB together, decoded. Fix: remove files, or make them smaller"
	for n, refused := range map[int]bool{4: false, 5: true, 1_000: true} {
		w, r := newWorld(t), request("a-1")
		r.Desired.BootstrapConfig.Object = config(n)
		u := w.updater(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer := u.UpdateMachine(t.Context(), r)
		runtime.ReadMemStats(&after)
		if refused != (answer.Outcome == inplace.Fails && answer.Message == want) || refused != (w.execs == 0) {
			t.Errorf("%d files: %d scripts ran, and the answer is %+v", n, w.execs, answer)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; refused && took > 32 {
			t.Errorf("%d files take %d MiB of memory", n, took)
		}
	}
}
