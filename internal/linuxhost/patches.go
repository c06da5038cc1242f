package linuxhost

import (
	"encoding/base64"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// patchName matches the files that kubeadm takes for patches, as cmd/kubeadm/app/util/patches does:
// the target, a suffix, and the kind of the patch.
var patchName = regexp.MustCompile(
	`^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler` +
		`|kubeletconfiguration|corednsdeployment)[^\n]*\.(json|yaml)$`)

// PatchTarget returns what kubeadm patches with a file of this name; empty if it ignores the file.
func PatchTarget(name string) string {
	match := patchName.FindStringSubmatch(name)
	if len(match) == 0 {
		return ""
	}
	return match[1]
}

// IsPatch reports whether kubeadm would apply the file at a path as a patch from a folder. It reads
// the folders below, too.
func IsPatch(folder, p string) bool {
	return folder != "" && strings.HasPrefix(p, folder+"/") && PatchTarget(path.Base(p)) != ""
}

// patches are the goal's patches for kubeadm, one a line: the path below PatchesFolder and the
// content, both in base64. The content has an = in front, because it may be empty.
func (g Goal) patches() string {
	var lines []string
	encode := base64.StdEncoding.EncodeToString
	for _, file := range g.sortedFiles() {
		if IsPatch(g.PatchesFolder, file.Path) {
			below := strings.TrimPrefix(file.Path, g.PatchesFolder+"/")
			lines = append(lines, encode([]byte(below))+" ="+encode(file.Content))
		}
	}
	return strings.Join(lines, "\n")
}

// kubeadmPatches is the folder on the host from which kubeadm takes patches; empty for none. The
// goal's own patches have one of their own: an earlier update, or another program, may have written
// anything to PatchesFolder.
func (g Goal) kubeadmPatches() string {
	if g.patches() != "" {
		return StateFolder + "/op/" + g.Operation() + "/patches"
	}
	return g.HostPatches
}

// usualPatches is the folder of patches in kubeadm's documentation. kubeadm stores nowhere which
// folder a machine was made with.
const usualPatches = "/etc/kubernetes/patches"

// patchesToFind is the folder of which the host lists the patches; empty for none.
func (g Goal) patchesToFind() string {
	switch {
	case g.RefusePatches:
		return usualPatches
	case g.HostPatches != "":
		return g.HostPatches
	}
	return g.PatchesFolder
}

// refusePatches refuses a host with a patch that the goal does not have. Nobody has checked it, and
// without it kubeadm would take back what it does.
func refusePatches(g Goal, f Facts) *Failure {
	isPatch := func(found string) bool { return PatchTarget(path.Base(found)) != "" }
	if g.HostPatches != "" && !slices.ContainsFunc(f.Patches, isPatch) {
		return newFailure(FileRefused, KubeadmUpgrade, "%s on the host has no patches for kubeadm. "+
			"Nothing was changed. Fix: correct --patches", g.HostPatches)
	}
	for _, found := range f.Patches {
		if g.RefusePatches && isPatch(found) {
			return newFailure(FileRefused, KubeadmUpgrade,
				"%s on the host is a patch for kubeadm, which takes back what it does if it runs without "+
					"it. Nothing was changed. Fix: run with --patches %s, or with --patches none",
				text.Bound(found, maxPath), usualPatches)
		}
		known := slices.ContainsFunc(g.Files, func(own File) bool { return own.Path == found })
		if known || !IsPatch(g.PatchesFolder, found) {
			continue
		}
		return newFailure(FileRefused, KubeadmUpgrade,
			"%s on the host is a patch for kubeadm that is not among the configuration's files. "+
				"Nothing was changed. Fix: add it to the files in the template of the Machine's owner, then "+
				"abandon this update with the annotation windlass.dev/update-abandon on the Machine",
			text.Bound(found, maxPath))
	}
	return nil
}
