package linuxhost

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
	"github.com/windlass-dev/windlass/internal/text"
)

// IsPatch reports whether kubeadm would apply the file at a path as a patch from a folder. It reads
// the folders below, too.
func IsPatch(folder, p string) bool {
	return folder != "" && strings.HasPrefix(p, folder+"/") && kubeadmpatch.Target(path.Base(p)) != ""
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
	isPatch := func(found string) bool { return kubeadmpatch.Target(path.Base(found)) != "" }
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

// checkedPatches are the goal's patches for kubeadm by target. Those of a target that a Prefix allows
// any content for are not among them.
func (g Goal) checkedPatches() map[string][]kubeadmpatch.File {
	checked := map[string][]kubeadmpatch.File{}
	var unchecked []string
	for _, file := range g.sortedFiles() {
		if !IsPatch(g.PatchesFolder, file.Path) {
			continue
		}
		target := kubeadmpatch.Target(path.Base(file.Path))
		if slices.Contains(g.prefixes(), file.Path) {
			unchecked = append(unchecked, target)
		}
		checked[target] = append(checked[target], kubeadmpatch.File{
			Path: strings.TrimPrefix(file.Path, g.PatchesFolder+"/"), Content: file.Content,
		})
	}
	for _, target := range unchecked {
		delete(checked, target)
	}
	return checked
}

// checkEffects returns a failure unless the goal's patches for kubeadm change only safe fields of what
// the host has now. kubeadm gets the same bytes: they are in the script of the step. The error is that
// of ctx.
func checkEffects(ctx context.Context, g Goal, f Facts) (*Failure, error) {
	patches := g.checkedPatches()
	for _, target := range slices.Sorted(maps.Keys(patches)) {
		if !kubeadmpatch.IsForWorkers(target) && !f.ControlPlane || target == "etcd" && !f.Member {
			// kubeadm does not apply them.
			continue
		}
		present, found := f.Patched[target]
		if !found && target != kubeadmpatch.CoreDNS {
			return newFailure(FileRefused, KubeadmUpgrade, "the host does not have the file that patches of "+
				"%s for kubeadm change, so their effect is unknown. Fix: restore %s", target, fileOf(target)), nil
		}
		err := checkTarget(ctx, target, []byte(present), patches[target])
		if ctx.Err() != nil {
			return nil, fmt.Errorf("checking the patches for kubeadm: %w", ctx.Err())
		}
		if err != nil {
			return newFailure(FileRefused, KubeadmUpgrade, "%v", err), nil
		}
	}
	return nil, nil //nolint:nilnil // They change safe fields only.
}

// checkTarget checks the patches of one target, first each alone: a config is read without them where
// its Machine is no control plane, and the host may be one.
func checkTarget(
	ctx context.Context, target string, present []byte, files []kubeadmpatch.File,
) error {
	for _, file := range files {
		if err := kubeadmpatch.Check(ctx, path.Base(file.Path), file.Content); err != nil {
			return fmt.Errorf("file %s: %w", text.Bound(file.Path, maxPath), err)
		}
	}
	return kubeadmpatch.CheckEffect(ctx, target, present, files) //nolint:wrapcheck // It names the target.
}

// filesToPatch are lines of a target of patches and the file on the host that they change.
func (g Goal) filesToPatch() string {
	var lines []string
	for _, target := range slices.Sorted(maps.Keys(g.checkedPatches())) {
		lines = append(lines, target+" "+fileOf(target))
	}
	return strings.Join(lines, "\n")
}

// fileOf is the file on a host that kubeadm renders for a target of patches.
func fileOf(target string) string {
	if target == kubeadmpatch.Kubelet {
		return kubeletFolder + "/config.yaml"
	}
	return "/etc/kubernetes/manifests/" + target + ".yaml"
}
