// Package kubeadmpatch checks patches for kubeadm: the files that kubeadm applies to the manifests of
// its static pods and to the kubelet's configuration. A tenant writes them, and what they patch runs
// as root on a host. Safe patches set resources, labels and annotations of static pods, and numbers,
// durations, sizes and policies of the kubelet. No patch of the Deployment of CoreDNS is safe.
//
// kubeadm renders new manifests for a new version and patches those, so nobody has the patched
// document before kubeadm runs. Two checks make up for that.
//
// Check reads a patch alone. It accepts nothing whose effect depends on the document:
//
//   - A merge patch and a strategic merge patch change the paths that they name. Check accepts only
//     safe paths. Outside of safe fields it accepts no directive of a strategic patch, because each is
//     a key that begins with "$". It accepts no list in a merge patch, because that would replace the
//     document's. A strategic patch merges the list of containers by name: Check accepts only the name
//     of the container that kubeadm makes, which is the same in all versions.
//   - An operation of a JSON patch is add, replace or remove, of a path at or below a safe field. Each
//     takes its value from the patch. Copy and move take one from the document, and test makes other
//     operations conditional: Check refuses all three.
//   - Values have the types of the fields. No annotation can hold an object.
//
// So the set of paths that a patch can change follows from the patch, for each document in which
// kubeadm's container has its name. CheckEffect then applies the patches to the documents that the
// host has, which kubeadm rendered for the version before, and compares: it confirms that premise, and
// that the libraries do what Check assumes.
//
// Everything here is pure and safe for concurrent use. The module test/kubeadmpatches compares it with
// kubeadm's own code.
package kubeadmpatch
