package linuxhost

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Distribution is what runs Kubernetes on a host.
type Distribution string

// The distributions.
const (
	Kubeadm Distribution = "kubeadm"
	RKE2    Distribution = "rke2"
	K3s     Distribution = "k3s"
)

// Folder is where a distribution's binaries stand on a host unless configured otherwise.
func (d Distribution) Folder() string {
	if d == Kubeadm {
		return "/usr/bin"
	}
	return "/usr/local/bin"
}

// Goal is what a host is to become.
type Goal struct {
	Distribution Distribution
	// Version is the version that the node is to report.
	Version version.Version
	// Folder is where the binaries stand on the host; empty means the distribution's Folder.
	Folder  string
	Source  Source
	Digests Manifest
	// Files are written before kubeadm runs, because patches for it are files; Before and After are commands that may be repeated, run before
	// kubeadm and after the kubelet's binary and arguments are in place. KubeletArgs are set in the kubelet's arguments. All count for kubeadm
	// only.
	Files         []File
	Before, After []string
	KubeletArgs   []Arg
	// Arguments are set in the arguments that RKE2 or K3s gives to components. They do not count for
	// kubeadm.
	Arguments []ComponentArguments
	// DropRemoved says that KubeletArgs and Arguments are all arguments that people want: others that
	// the version lacks are removed.
	DropRemoved bool
	// Accepted are names of settings and requirements that the host may lack; see package settings.
	Accepted []string
	// Prefixes are the paths of folders and files at or below which Files may be; nil means
	// DefaultPrefixes.
	Prefixes []string
	// PatchesFolder is the folder whose files are patches for kubeadm; empty for none. Only those
	// among Files count. kubeadm gets copies of them in a folder of the operation.
	PatchesFolder string
	// HostPatches is a folder on the host from which kubeadm takes patches unchanged; empty for none.
	// It counts only where PatchesFolder is empty.
	HostPatches string
	// RefusePatches refuses a host that has patches in the folder that kubeadm's documentation names,
	// because nobody has said whether kubeadm is to take them.
	RefusePatches bool
	// IgnorePreflight are checks of kubeadm whose failure does not count, by kubeadm's names for them.
	IgnorePreflight []string
	// Snapshot asks for a snapshot of etcd before the first change of a machine that has a member of it.
	Snapshot bool
	// Drain makes draining and uncordoning steps of the upgrade. It is unset where whoever drives the upgrade drains.
	Drain bool
	// ReadyWithin is how long the node may take to be Ready at the version after the restart; 0 means DefaultReadyWithin.
	ReadyWithin time.Duration
	// Settle is how long the service must run after the restart before the node is looked at; 0 means DefaultSettle.
	Settle time.Duration
}

// DefaultReadyWithin is how long a node may take to be Ready unless configured otherwise.
const DefaultReadyWithin = 5 * time.Minute

// DefaultSettle is how long a service must run after its restart: what a kubelet refuses of its arguments and its configuration, it refuses within
// seconds.
const DefaultSettle = 5 * time.Second

// Source is where binaries come from: exactly one of its fields is set. A file is named VERSION/linux/ARCH/NAME.
type Source struct {
	// URL is a template with {version}, {arch} and {name}.
	URL string
	// HostFolder is a folder on the host.
	HostFolder string
	// Bundle says that we send the files.
	Bundle bool
}

// File is a file on the host.
type File struct {
	// Path is absolute. Owner is USER:GROUP, empty for root:root. Permissions are octal, empty for 0644.
	Path, Owner, Permissions string
	Content                  []byte
}

// Arg is an argument of the kubelet, without its dashes. Several of one name are one argument each.
type Arg struct{ Name, Value string }

// ComponentArguments are arguments for one component. Key is that of RKE2's and K3s' configuration,
// such as kubelet-arg.
type ComponentArguments struct {
	Key  string
	Args []Arg
}

// Operation names the goal in a folder on the host: attempts at the same goal share what they have
// done, other goals do not. What changes only the way there, such as the source of binaries, makes no
// other goal. Digests make none either: steps compare the host's binaries with them, and no other
// step depends on them.
func (g Goal) Operation() string {
	sum := sha256.New()
	write := func(parts ...string) { writeParts(sum, parts...) }
	write(string(g.Distribution), g.Version.String(), g.PatchesFolder, g.folder())
	if g.HostPatches != "" {
		write("host patches", g.HostPatches)
	}
	for _, file := range g.sortedFiles() {
		write("file", file.Path, file.Owner, file.Permissions, string(file.Content))
	}
	for _, arg := range g.KubeletArgs {
		write("arg", arg.Name, arg.Value)
	}
	for _, list := range g.Arguments {
		for _, arg := range list.Args {
			write(list.Key, arg.Name, arg.Value)
		}
	}
	write(slices.Concat([]string{"before"}, g.Before, []string{"after"}, g.After)...)
	return safe(g.Version.String()) + "-" + shorten(sum)
}

// Manifest names the digests that the goal's binaries must have.
func (g Goal) Manifest() string {
	sum := sha256.New()
	writeParts(sum, g.Digests.of(g.Version)...)
	return shorten(sum)
}

// shorten returns enough of a sum to tell it from others.
func shorten(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil))[:12] }

// writeParts writes texts so that no others are written alike.
func writeParts(sum io.Writer, parts ...string) {
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
}

func (g Goal) folder() string { return cmp.Or(g.Folder, g.Distribution.Folder()) }

func (g Goal) readyWithin() time.Duration { return cmp.Or(g.ReadyWithin, DefaultReadyWithin) }

func (g Goal) settle() time.Duration { return cmp.Or(g.Settle, DefaultSettle) }

func (g Goal) sortedFiles() []File {
	return slices.SortedFunc(slices.Values(g.Files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}

// safe makes a version the name of a folder, and of a systemd unit.
func safe(s string) string { return strings.ReplaceAll(s, "+", "-") }
