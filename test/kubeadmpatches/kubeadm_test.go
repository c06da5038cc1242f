package kubeadmpatches_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/patches"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
)

// tester is what tests, fuzz targets and properties have in common.
type tester interface {
	Context() context.Context
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// folder is a folder of patches. kubeadm remembers what it has read from a path, so that each has
// another one.
func folder(t tester, parent string, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "patches")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// applyWithKubeadm has kubeadm apply the patches of a folder to a document, as it does to static pods
// and to the kubelet's configuration. The result is JSON.
func applyWithKubeadm(dir, target string, document []byte) (result []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("kubeadm panics: %v", panicked)
		}
	}()
	manager, err := patches.GetPatchManagerForPath(dir, patches.KnownTargets(), nil)
	if err != nil {
		return nil, err
	}
	patched := &patches.PatchTarget{Name: target, StrategicMergePatchObject: corev1.Pod{}, Data: slices.Clone(document)}
	if target == kubeadmpatch.Kubelet {
		patched.StrategicMergePatchObject = kubelet.KubeletConfiguration{}
	}
	err = manager.ApplyPatchesToTarget(patched)
	return patched.Data, err
}

// dangerous are fields of the kubelet's configuration that no patch may change: what is run or read as
// root, who may call the kubelet, and what the document is.
var dangerous = []string{
	"apiVersion", "kind", "staticPodPath", "staticPodURL", "staticPodURLHeader", "volumePluginDir", "authentication", "authorization",
	"tlsCertFile", "tlsPrivateKeyFile", "containerRuntimeEndpoint", "imageServiceEndpoint", "resolvConf", "clusterDNS", "clusterDomain", "address", "port",
	"readOnlyPort", "providerID", "enableServer", "cgroupRoot", "podLogsDir", "crashLoopBackOff", "serverTLSBootstrap", "registerWithTaints", "tracing",
	"enableDebuggingHandlers", "imageServiceEndpoint", "allowedUnsafeSysctls", "kernelMemcgNotification", "hairpinMode", "preloadedImagesVerificationAllowlist",
}

// unsafe returns what differs between two documents in JSON and must not; empty for nothing. It knows
// nothing of the product's lists.
func unsafe(target string, before, after []byte) string {
	if target != kubeadmpatch.Kubelet {
		if typed := unsafePod(before, after); typed != "" {
			return typed
		}
	}
	var was, is map[string]any
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		return "what is no object"
	}
	if target == kubeadmpatch.Kubelet {
		for _, name := range dangerous {
			if !reflect.DeepEqual(was[name], is[name]) {
				return name
			}
		}
		return ""
	}
	for _, tree := range []map[string]any{was, is} {
		metadata, _ := tree["metadata"].(map[string]any)
		delete(metadata, "annotations")
		delete(metadata, "labels")
		spec, _ := tree["spec"].(map[string]any)
		containers, _ := spec["containers"].([]any)
		for _, c := range containers {
			if c, ok := c.(map[string]any); ok {
				delete(c, "resources")
			}
		}
	}
	if !reflect.DeepEqual(was, is) {
		return "the tree"
	}
	return ""
}

// unsafePod compares the Pods that kubeadm reads.
func unsafePod(before, after []byte) string {
	var was, is corev1.Pod
	if json.Unmarshal(after, &is) != nil {
		return "" // kubeadm refuses what is no Pod.
	}
	if json.Unmarshal(before, &was) != nil {
		return "" // The trees are compared in any case.
	}
	for _, pod := range []*corev1.Pod{&was, &is} {
		pod.Annotations, pod.Labels = nil, nil
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
		}
	}
	if !reflect.DeepEqual(was, is) {
		return "the Pod"
	}
	return ""
}

// outcome is what became of a patch.
type outcome struct {
	// accepted says that Check accepts it, and applied that kubeadm can apply it to the document.
	accepted, applied bool
}

// check compares the product with kubeadm, for one file and all hosts. It returns what became of the
// file on the first one.
func check(t tester, parent, name, content string) outcome {
	t.Helper()
	dir := folder(t, parent, map[string]string{name: content})
	defer func() { _ = os.RemoveAll(dir) }()
	var outcomes []outcome
	for _, documents := range hosts {
		outcomes = append(outcomes, checkHost(t, dir, name, content, documents))
	}
	return outcomes[0]
}

func checkHost(t tester, dir, name, content string, documents map[string]string) (o outcome) {
	t.Helper()
	target := kubeadmpatch.Target(name)
	for other, document := range documents {
		before, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		after, err := applyWithKubeadm(dir, other, []byte(document))
		if other == target {
			o.applied = err == nil
			o.accepted = kubeadmpatch.Check(t.Context(), name, []byte(content)) == nil
			checkTarget(t, o, kubeadmpatch.File{Path: name, Content: []byte(content)}, before, after)
		} else if err == nil && string(after) != document && !bytes.Equal(after, before) {
			t.Fatalf("kubeadm takes %q for a patch of %s, and the product does not", name, other)
		}
	}
	return o
}

// findsNothing matches patches with operations that are skipped where the document lacks their path.
var findsNothing = regexp.MustCompile(`"(remove|replace)"`)

// checkTarget compares what became of one document.
func checkTarget(t tester, o outcome, file kubeadmpatch.File, before, after []byte) {
	t.Helper()
	target := kubeadmpatch.Target(file.Path)
	effect := kubeadmpatch.CheckEffect(t.Context(), target, before, []kubeadmpatch.File{file})
	found := ""
	if o.applied {
		found = unsafe(target, before, after)
	}
	switch {
	case found != "" && o.accepted:
		t.Fatalf("Check accepts %s, which changes %s:\n%s\n%s\n%s", file.Path, found, file.Content, before, after)
	case found != "" && effect == nil:
		t.Fatalf("CheckEffect does not notice that %s changes %s:\n%s\n%s\n%s", file.Path, found, file.Content, before, after)
	case o.accepted && o.applied && effect != nil:
		t.Fatalf("Check and kubeadm accept %s, CheckEffect does not: %v\n%s\n%s", file.Path, effect, file.Content, before)
	// A host may have a removal already, and lack what the next version renders. Of the kubelet's fields,
	// the product does not know the types.
	case o.accepted && !o.applied && effect == nil && target != kubeadmpatch.Kubelet && !findsNothing.Match(file.Content):
		t.Fatalf("Check and CheckEffect accept %s, kubeadm does not:\n%s\n%s", file.Path, file.Content, before)
	}
}
