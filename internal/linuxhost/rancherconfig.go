package linuxhost

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// RancherConfig is what RKE2 or K3s is told to give to components of Kubernetes.
type RancherConfig struct {
	// Path is that of the main configuration file, which need not exist.
	Path string
	// Files are the configuration files in the order in which they are read, with the keys of
	// settings.RancherLists only.
	Files []settings.RancherFile
	// Unread is the first file whose content nobody knows; empty if there is none.
	Unread string
	// OtherToken is the file with a server's token if its configuration has another one that is older.
	OtherToken string
	// Registries says that there is a file with registries of images, or mirrors of them.
	Registries bool
	// Arguments are those of the service's command line and its variables, as KEY=WORD.
	Arguments []string
	// Kubelet has the files that are merged into the kubelet's configuration, in their order.
	Kubelet []HostFile
}

// HostFile is a file of a host, as text.
type HostFile struct{ Path, Content string }

// parseRancherConfig reads the facts of component_facts.
func parseRancherConfig(values map[string]string) RancherConfig {
	c := RancherConfig{
		Path: values["config-path"], OtherToken: values["other-token"], Registries: values["registries"] == "yes",
	}
	for _, file := range filesIn(values, "config-file-") {
		parsed := settings.RancherFile{Path: file.Path}
		if untrusted.Object.UnmarshalYAML([]byte(file.Content), &parsed.Content) != nil {
			c.Unread = cmp.Or(c.Unread, file.Path)
		}
		c.Files = append(c.Files, parsed)
	}
	for _, file := range filesIn(values, "kubelet-file-") {
		if file.Content == unreadContent {
			c.Unread = cmp.Or(c.Unread, file.Path)
		}
		c.Kubelet = append(c.Kubelet, file)
	}
	for line := range strings.Lines(values["component-flags"]) {
		c.Arguments = append(c.Arguments, strings.TrimSuffix(line, "\n"))
	}
	return c
}

// unreadContent is what the host prints in the place of content that it cannot print.
const unreadContent = "?"

// filesIn returns the facts with a prefix, in the order of their keys: a path, and in the next line
// the content.
func filesIn(values map[string]string, prefix string) []HostFile {
	var files []HostFile
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, prefix) {
			path, content, _ := strings.Cut(values[key], "\n")
			files = append(files, HostFile{Path: path, Content: content})
		}
	}
	return files
}

// lists are the arguments that components get.
func (c RancherConfig) lists(service string) settings.RancherLists {
	return settings.MergeRancher(c.Files).WithArguments("the service "+service, c.Arguments)
}

// rancherUses are the settings that RKE2 or K3s gives to the components of its node, once the
// goal's drop-in is there.
func rancherUses(g Goal, f Facts) []settings.Use {
	lists := withDropIn(g, f).lists(f.Service)
	uses := lists.Uses(f.ControlPlane)
	if g.Distribution == RKE2 {
		uses = append(uses, lists.Profile()...)
	}
	for _, file := range f.Rancher.Kubelet {
		uses = append(uses, fromDocument(file.Path, file.Content, settings.FromKubelet)...)
	}
	return uses
}

// refuseUnread refuses a host whose settings nobody knows.
func refuseUnread(f Facts) *Failure {
	if f.Rancher.Unread == "" {
		return nil
	}
	return newFailure(ConfigUnreadable, "", "%s on the host has a form that Windlass does not "+
		"read, so nobody knows which arguments components get. Nothing was changed. Fix: write it as "+
		"YAML with one key a line at the left, without anchors", f.Rancher.Unread)
}

// refuseToken refuses a server of RKE2 or K3s that would not start again: it decrypts what the cluster
// keeps for its servers with the token of its configuration (rke2#6250).
func refuseToken(f Facts) *Failure {
	if f.Rancher.OtherToken == "" {
		return nil
	}
	return newFailure(ConfigUnsupported, "", "the token that the host is configured with (in %s, a drop-in "+
		"beside it, its token-file, or a variable of the service) is older than, and not that of %s, as after "+
		"a rotation: the server cannot decrypt the cluster's bootstrap data with it, and would not start "+
		"again. Nothing was changed. Fix: write the token that was rotated to into the configuration of each "+
		"server, and of the agents that joined with the old one; restart them one after the other, servers "+
		"first; then upgrade", f.Rancher.Path, f.Rancher.OtherToken)
}
