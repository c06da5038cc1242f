package linuxhost

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// DefaultPrefixes returns the folders in which files are written unless others are configured: what kubeadm and the API server read, such as patches, audit
// policies, admission configurations and encryption configurations.
func DefaultPrefixes() []string { return []string{"/etc/kubernetes"} }

// pathSyntax has components of printable ASCII, which do not end with a dot or a blank: some file systems ignore these. A component does not begin with
// a blank, - or a dot and a dot. Braces would be filled in by cloud-init.
var pathSyntax = regexp.MustCompile(`^(/([A-Za-z0-9_+@%~=:,.-]([A-Za-z0-9_+@%~=:,. -]*[A-Za-z0-9_+@%~=:,-])?))+$`)

// maxPath is the longest path that Linux takes, in bytes.
const maxPath = 4095

// isCleanPath reports whether a path is absolute, has one spelling only, and names no folder of its own.
func isCleanPath(p string) bool {
	return len(p) <= maxPath && p != "/" && path.Clean(p) == p && pathSyntax.MatchString(p) && !strings.Contains(p, "/-") && !strings.Contains(p, "/.windlass")
}

// CheckPrefix returns what is wrong with an allowed prefix; nil for a usable one.
func CheckPrefix(prefix string) error {
	if !isCleanPath(prefix) {
		return fmt.Errorf("%q is not the clean absolute path of a folder or a file below /", prefix)
	}
	return nil
}

// CheckPath returns nil for a path at which a file may be written: it is clean, one of the prefixes or below one, and not protected. The error names the
// path. folder is the folder of the binaries.
func CheckPath(p string, prefixes []string, folder string) error {
	switch {
	case !isCleanPath(p):
		return fmt.Errorf("%q is not a clean absolute path", p)
	case isProtected(p, folder):
		return fmt.Errorf("%s is never written: kubeadm, the kubelet, etcd or Windlass owns it, or it does not outlive a boot", p)
	case prefixOf(p, prefixes) == "":
		return fmt.Errorf("%s is not below an allowed path (%s); allow it in spec.inProcess.host.allowedPathPrefixes of the Updater", p, strings.Join(prefixes, ", "))
	}
	return nil
}

// prefixOf returns the longest of the prefixes that a path is, or is below of; empty for none.
func prefixOf(p string, prefixes []string) string {
	found := ""
	for _, prefix := range prefixes {
		if (p == prefix || strings.HasPrefix(p, prefix+"/")) && len(prefix) > len(found) {
			found = prefix
		}
	}
	return found
}

// protected are folders and files that kubeadm, the kubelet, etcd or Windlass owns, or that do not outlive a boot. No prefix allows them. They are in lower
// case, because a file system may ignore case.
var protected = []string{
	"/etc/kubernetes/pki", "/etc/kubernetes/manifests", "/etc/kubernetes/tmp",
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", kubeletFlagsFile, "/var/lib/kubelet/pki",
	"/var/lib/etcd", StateFolder, "/run", "/var/run", "/tmp", "/dev", "/proc", "/sys",
}

// protectedConf match the kubeconfigs of kubeadm, and drop-ins of the kubelet, as patterns of bash.
var protectedConf = []string{"/etc/kubernetes/*.conf", "/etc/kubernetes/*.conf.d/*"}

// installed are the binaries that an upgrade puts in their places.
var installed = []string{"kubeadm", "kubelet", kubectl}

func isProtected(p, folder string) bool {
	p = strings.ToLower(p)
	within := func(owned string) bool { return p == owned || strings.HasPrefix(p, owned+"/") }
	return slices.ContainsFunc(protected, within) ||
		strings.HasPrefix(p, "/etc/kubernetes/") && (path.Ext(p) == ".conf" || strings.Contains(p, ".conf.d/")) ||
		path.Dir(p) == strings.ToLower(folder) && slices.Contains(installed, path.Base(p))
}

func (g Goal) prefixes() []string {
	if g.Prefixes == nil {
		return DefaultPrefixes()
	}
	return g.Prefixes
}

// protected are the patterns of what a path must not lead to on the host.
func (g Goal) protected() []string {
	patterns := slices.Concat(protected, protectedConf)
	for _, name := range installed {
		patterns = append(patterns, g.folder()+"/"+name)
	}
	return patterns
}
