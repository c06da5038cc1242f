package linuxhost

import (
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/settings"
)

// kubeadmArchive is the name of an archive with images, for hosts that kubeadm made.
const kubeadmArchive = "images.tar"

// isArchive reports whether a file of the manifest is an archive of images, and no binary.
func isArchive(name string) bool { return strings.Contains(name, ".tar") }

// kubeadmImages are the steps that bring kubeadm's images to a host, before its node is drained. A
// host that needs no kubelet needs none, and neither does one for which kubeadm's own check of them
// does not count.
func kubeadmImages(g Goal, f Facts, binaries []binary) []Step {
	at := slices.IndexFunc(binaries, func(b binary) bool { return b.name == "kubelet" })
	if at < 0 || settings.IgnoresCheck(g.IgnorePreflight, "ImagePull") {
		return nil
	}
	kubelet := value{"KUBELET", string(binaries[at].digest)}
	archive := binary{name: kubeadmArchive}
	login, worker, from, path := "admin", "", "pull", ""
	if !f.ControlPlane {
		login, worker = "kubelet", "yes"
	}
	var steps []Step
	digest, ok := g.Digests.Digest(g.Version, f.Arch, kubeadmArchive)
	if ok {
		archive.digest = digest
		path, from = staged(g, archive), "import from "+kubeadmArchive+", or pull,"
		steps = append(steps, fetchStep(g, f, archive, "fetch-images-check", kubelet))
	}
	return append(steps, Step{
		Name: PullImages,
		Summary: from + " the images that kubeadm " + g.Version.String() +
			" lists and the host lacks",
		Check: g.script("pull-images-check", kubelet),
		Action: g.run(upgradeLimit, "pull-images", value{"ARCHIVE", path},
			value{"DIGEST", string(digest)}, value{"LOGIN", login}, value{"WORKER", worker},
			kubelet),
	})
}
