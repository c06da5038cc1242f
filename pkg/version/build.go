package version

import (
	"regexp"
	"strings"
)

// own matches the pre-releases that Kubernetes makes, with or without the dot that K3s and RKE2 leave out.
var own = regexp.MustCompile(`^(alpha|beta|rc)\.?[0-9]`)

// numbered matches the builds of distributions that count their builds within one word: RKE2, K3s and EKS
// Distro. k0s and others have numbers of their own, such as +k0s.1.
var numbered = regexp.MustCompile(`^(?:(rke2r|k3s)([0-9]+)|(eks)-([0-9]+)-([0-9]+)-([0-9]+))$`)

// unnumbered matches what the kubelets of distributions report that do not say which build they are: k0s
// leaves the number out, and images of EKS Anywhere have a hash in its place.
var unnumbered = regexp.MustCompile(`^(?:(k0s)|(eks)-[0-9a-f]{7,})$`)

// pre returns the pre-release of Kubernetes itself, without its hyphen.
func (v Version) pre() string {
	pre, _, _ := strings.Cut(v.suffix, "+")
	if pre = strings.TrimPrefix(pre, "-"); own.MatchString(pre) {
		return pre
	}
	return ""
}

// words returns what a distribution added: the build, and a pre-release that is not Kubernetes' own.
// Names of images may not have a "+", so distributions spell their builds both ways.
func (v Version) words() string {
	pre, build, _ := strings.Cut(v.suffix, "+")
	if pre = strings.TrimPrefix(pre, "-"); pre == "" || own.MatchString(pre) {
		return build
	}
	if build == "" {
		return pre
	}
	return pre + "." + build
}

// build returns the identifiers of the build, with the numbers of known distributions on their own:
// "rke2r" and "10" for rke2r10, and "eks", "1", "33" and "9" for eks-1-33-9.
func (v Version) build() []string {
	words := v.words()
	if words == "" {
		return nil
	}
	var identifiers []string
	for identifier := range strings.SplitSeq(words, ".") {
		if parts := numbered.FindStringSubmatch(identifier); parts != nil {
			for _, part := range parts[1:] {
				if part != "" {
					identifiers = append(identifiers, part)
				}
			}
			continue
		}
		identifiers = append(identifiers, identifier)
	}
	return identifiers
}

// RunBy reports whether a kubelet or a control plane that reports itself as reported runs v. It must be of
// v's release. The build counts if v names one, unless what is reported does not say which build of the same
// distribution it is.
func (v Version) RunBy(reported Version) bool {
	if Compare(reported, v) == Equal {
		return true
	}
	if !reported.SameRelease(v) {
		return false
	}
	build := v.build()
	if len(build) == 0 {
		return true
	}
	distribution := unnumbered.FindStringSubmatch(reported.words())
	return len(distribution) > 2 && build[0] == distribution[1]+distribution[2]
}

// IsReachedBy reports whether a control plane that was asked for v, and reports a version, is no longer on
// its way to v: it runs v, or a newer version, as Cluster API's contract for control planes has it. Builds
// without an order are different versions.
func (v Version) IsReachedBy(reported Version) bool {
	return v.RunBy(reported) || Compare(reported, v) == Greater
}
