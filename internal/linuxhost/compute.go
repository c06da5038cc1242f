package linuxhost

import (
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// ComputeSteps computes the steps that bring a host to a goal, in order. The failure is nil, or says why the host cannot be upgraded to it.
// Which of the steps are done is not for it to say: it gives all.
//
// The steps are the same ones whenever it is asked during an upgrade, whatever is done already: what they depend on is not changed by them.
func ComputeSteps(g Goal, f Facts) ([]Step, *Failure) {
	steps, refused := computeSteps(g, f)
	if f.Cut {
		return addRecovery(g, steps, refused)
	}
	return steps, refused
}

func computeSteps(g Goal, f Facts) ([]Step, *Failure) {
	if refused := refuse(g, f); refused != nil {
		return nil, refused
	}
	if g.Distribution == Kubeadm {
		return kubeadmSteps(g, f)
	}
	return rancherSteps(g, f)
}

// refuse looks at what must hold before anything is done. Source of the rules: Kubernetes' version skew policy; kubeadm refuses to skip
// minors, and RKE2 and K3s do not support it.
func refuse(g Goal, f Facts) *Failure {
	refused := func(reason Reason, format string, args ...any) *Failure {
		return newFailure(reason, "", format, args...)
	}
	from, to := f.Installed, g.Version
	if from.IsZero() || f.Service == "" {
		return refused(NotThisDistribution, "there is no %s that runs on the host; it is looked for in %s", mainBinary(g.Distribution), g.folder())
	}
	if version.Compare(to, from) == version.Less {
		return refused(VersionRefused, "the host is at %s; going back to %s is not supported", from, to)
	}
	if lag, ok := from.Minor().Lag(to.Minor()); !ok || lag > 1 {
		return refused(VersionRefused, "the host is at %s; %s is more than one minor on, and a host goes through each", from, to)
	}
	if f.CertificatesDir != "" {
		return refused(ConfigUnsupported, "the certificates of the cluster are in %s (certificatesDir); "+
			"Windlass knows them in /etc/kubernetes/pki only, to ask etcd and to put them back if kubeadm "+
			"fails. Nothing was changed. Fix: upgrade this control plane in another way",
			text.Bound(f.CertificatesDir, maxName))
	}
	return refuseSkew(f, to, refused)
}

// refuseSkew compares the target with the versions of API servers. A kubelet must not be newer than
// any of them, and a load balancer picks which one answers the host: so it compares a worker with
// the oldest control plane Node, too. An unknown version is no reason to refuse: whoever plans the
// upgrade has looked at it, too.
func refuseSkew(f Facts, to version.Version, refused func(Reason, string, ...any) *Failure) *Failure {
	server := computeLag(f.APIServer, to)
	switch {
	case f.ControlPlane && version.Compare(to, f.Cluster) == version.Less:
		return refused(VersionRefused, "the cluster's configuration is at %s already; %s would take it back", f.Cluster, to)
	case f.ControlPlane && computeLag(to, f.OwnAPIServer) > 0:
		// kubeadm upgrade apply changes the configuration last.
		return refused(VersionRefused, "the API server of the host is at %s already; %s would take it "+
			"back", f.OwnAPIServer, to)
	case f.ControlPlane && server > 1:
		return refused(VersionRefused, "the API server is at %s; %s is more than one minor on", f.APIServer, to)
	case f.ControlPlane:
		return nil
	case computeLag(f.Oldest.Kubelet, to) > 0:
		return refused(VersionRefused, "control plane Node %s is at %s; a node must not be newer "+
			"than any API server: upgrade all of the control plane to %s first",
			f.Oldest.Name, f.Oldest.Kubelet, to.Minor())
	case server > 0:
		return refused(VersionRefused, "the API server is at %s; a node must not be newer than it: upgrade the control plane to %s first", f.APIServer, to.Minor())
	}
	return nil
}

// computeLag returns how many minors a version is behind another; 0 if it is unknown.
func computeLag(v, ahead version.Version) uint32 {
	if v.IsZero() {
		return 0
	}
	lag, _ := v.Minor().Lag(ahead.Minor())
	return lag
}

func mainBinary(d Distribution) string {
	if d == Kubeadm {
		return "kubelet"
	}
	return string(d)
}

// binary is one that a goal brings to a host.
type binary struct {
	name   string
	digest Digest
	// tell prints the version of the binary in front of it.
	tell string
}

// selectBinaries finds the digests of binaries. kubectl counts only where the manifest has it. A host that is at the version already needs none:
// a change of its configuration alone is no reason to ask for a manifest. One on which kubeadm
// began an upgrade to another version has another kubeadm.
func selectBinaries(g Goal, f Facts, list ...binary) ([]binary, *Failure) {
	var selected []binary
	for _, b := range list {
		digest, ok := g.Digests.Digest(g.Version, f.Arch, b.name)
		isThere := f.Installed == g.Version && (b.name != "kubeadm" || !f.Begun || f.Verb != "")
		if !ok && (b.name == kubectl || isThere) {
			continue
		}
		if !ok {
			return nil, newFailure(NoDigest, "", "the manifest of digests has no line for %s", BinaryName(g.Version, f.Arch, b.name))
		}
		b.digest = digest
		selected = append(selected, b)
	}
	return selected, nil
}

// prepareSteps give the steps before the first change that a goal needs: the binaries are fetched,
// the images are brought, etcd is saved, and the node is drained.
func prepareSteps(g Goal, f Facts, binaries []binary, images []Step) []Step {
	var steps []Step
	for _, b := range binaries {
		steps = append(steps, fetchStep(g, f, b, "fetch-check"))
	}
	steps = append(steps, images...)
	if g.Snapshot && f.Member {
		steps = append(steps, etcdSnapshotStep(g))
	}
	return append(steps, drainSteps(g)...)
}

// kubectl is the one binary that a node does without.
const kubectl = "kubectl"

// installSteps gives the steps that put binaries of some names in their places.
func installSteps(g Goal, binaries []binary, names ...string) []Step {
	var steps []Step
	for _, b := range binaries {
		if slices.Contains(names, b.name) {
			steps = append(steps, installStep(g, b))
		}
	}
	return steps
}

// staged is where a binary waits until it is put in its place.
func staged(g Goal, b binary) string {
	return StateFolder + "/binaries/" + safe(g.Version.String()) + "/" + b.name
}

// fetchStep brings a binary, or an archive of images, to the host. It waits beside what is kept there, not in the folder of binaries, so that a
// host that was only prepared is as it was. check gets further values.
func fetchStep(g Goal, f Facts, b binary, check script, further ...value) Step {
	path := staged(g, b)
	name, from := BinaryName(g.Version, f.Arch, b.name), ""
	if g.Source.HostFolder != "" {
		from = g.Source.HostFolder + "/" + name
	}
	values := []value{
		{"BINARY", b.name}, {"FILE", path}, {"PART", path + ".part"}, {"DIGEST", string(b.digest)},
		{"FROM", from},
	}
	archive := ""
	if isArchive(b.name) {
		archive = strconv.FormatInt(unpacked(b.name), 10)
	}
	step := Step{
		Name: Name(FetchPrefix + b.name), Check: g.script(check, slices.Concat(values, further)...),
	}
	switch {
	case g.Source.Bundle:
		step.Summary = "send " + name + " from the bundle, and verify its digest"
		step.Action = Send{Name: name, Part: path + ".part", Path: path, Digest: b.digest}
	case from != "":
		step.Summary = "copy " + from + ", and verify its digest"
		step.Action = g.run(commandLimit, "fetch-copy", values...)
	default:
		url := strings.NewReplacer("{version}", g.Version.String(), "{arch}", f.Arch, "{name}", b.name).Replace(g.Source.URL)
		step.Summary = "download " + url + ", and verify its digest"
		step.Action = g.run(fetchLimit, "fetch-download",
			append(values, value{"URL", url}, value{"UNPACKED", archive})...)
	}
	return step
}

// installStep puts a binary in its place.
func installStep(g Goal, b binary) Step {
	values := []value{
		{"BINARY", b.name}, {"DIGEST", string(b.digest)}, {"STAGED", staged(g, b)}, {"TELL", b.tell},
	}
	return Step{
		Name:     Name(InstallPrefix + b.name),
		Installs: g.folder() + "/" + b.name,
		Summary:  "put " + b.name + " " + g.Version.String() + " in place of " + g.folder() + "/" + b.name,
		Check:    g.script("install-check", values...),
		Action:   g.run(commandLimit, "install", values...),
	}
}
