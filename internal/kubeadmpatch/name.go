package kubeadmpatch

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// The targets that are no static pods.
const (
	// Kubelet is the kubelet's configuration.
	Kubelet = "kubeletconfiguration"
	// CoreDNS is a Deployment of the workload cluster. Its Pods may run on any host.
	CoreDNS = "corednsdeployment"
)

// fileName matches the names of patches as kubeadm does: the target, a suffix, and the type. kubeadm
// looks for the extension apart from the rest.
var (
	fileName = regexp.MustCompile(
		`^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler` +
			`|kubeletconfiguration|corednsdeployment)[^.+\n]*(\+?)(json|merge|strategic)?`)
	extension = regexp.MustCompile(`.\.(json|yaml)$`)
)

// kind is how kubeadm applies a patch.
type kind string

const (
	jsonPatch      kind = "json"
	mergePatch     kind = "merge"
	strategicPatch kind = "strategic"
)

// Target returns what kubeadm patches with a file of this name: a static pod, Kubelet or CoreDNS. It
// is empty if kubeadm ignores the file.
func Target(name string) string {
	target, _ := parseName(name)
	return target
}

// parseName returns the target and the kind. The kind is empty if kubeadm refuses the name.
func parseName(name string) (target string, k kind) {
	match := fileName.FindStringSubmatch(name)
	switch {
	case match == nil || !extension.MatchString(name):
		return "", ""
	case match[3] != "":
		return match[1], kind(match[3])
	case match[2] != "":
		return match[1], ""
	}
	return match[1], strategicPatch
}

// compareFiles orders files as kubeadm applies them: by name in each folder, with all files of a
// folder in the place of the folder.
func compareFiles(a, b File) int {
	return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
}

// File is a file in the folder with patches for kubeadm.
type File struct {
	// Path is relative to the folder.
	Path    string
	Content []byte
}

// IsForWorkers reports whether kubeadm applies patches of the target to a host without a control plane.
func IsForWorkers(target string) bool { return target == Kubelet }

func (f File) target() string { return Target(path.Base(f.Path)) }
