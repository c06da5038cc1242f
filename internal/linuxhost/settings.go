package linuxhost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Configuration is what a host gives to the components of Kubernetes.
type Configuration struct {
	// Command is the command line of the kubelet that runs, one word a line; empty if none runs.
	Command string
	// Units is the kubelet's unit with its drop-ins. Defaults and Sysconfig are the files with
	// arguments that people write: /etc/default/kubelet and /etc/sysconfig/kubelet.
	Units, Defaults, Sysconfig string
	// Environment are other files with variables that the unit names.
	Environment []HostFile
	// Kubelet is the kubelet's configuration file, and KubeletPath where it is; empty for
	// kubeadm's. KubeletMap is what kubeadm upgrade writes into its own for another minor: the
	// ConfigMap kubelet-config; empty if it could not be read. Cluster is kubeadm's
	// ClusterConfiguration, which only a control plane host has.
	Kubelet, KubeletPath, KubeletMap, Cluster string
	// Cut are the names of the documents that are too large to be read.
	Cut []string
	// CgroupV1 says that the host has cgroups of version 1 only.
	CgroupV1 bool
	// Kernel is the kernel's release, and Containerd what containerd prints of its version; empty if
	// there is none.
	Kernel, Containerd string
}

const kubeletConfigFile = kubeletFolder + "/config.yaml"

// nextKubelet returns the configuration that the kubelet has after kubeadm upgrade, and where it is
// from. kubeadm writes its own file only. If the ConfigMap could not be read, that is the host's
// file, which is a copy of an earlier one.
func (c Configuration) nextKubelet() (object, content string) {
	switch {
	case !c.isKubeadms():
		return c.KubeletPath, c.Kubelet
	case c.KubeletMap != "":
		return "the ConfigMap kube-system/kubelet-config", c.KubeletMap
	}
	return kubeletConfigFile, c.Kubelet
}

// kubeletFiles are the files that the kubelet reads after kubeadm upgrade, in their order. What
// kubeadm writes replaces its own file.
func (c Configuration) kubeletFiles() []HostFile {
	files := []HostFile{{Content: c.Kubelet}}
	if c.isKubeadms() {
		files = append(files, HostFile{Content: c.KubeletMap})
	}
	return files
}

// isKubeadms reports whether the kubelet reads the configuration file that kubeadm writes.
func (c Configuration) isKubeadms() bool {
	return c.KubeletPath == "" || c.KubeletPath == kubeletConfigFile
}

// documentLimit is how much of a document a host prints, in bytes.
const documentLimit = 24 << 10

// cutDocuments returns the names of the documents that a host has cut.
func cutDocuments(values map[string]string) []string {
	var cut []string
	for _, document := range []struct{ key, name string }{
		{"kubelet-config", cmp.Or(values["kubelet-config-path"], kubeletConfigFile)},
		{"kubelet-map", "the ConfigMap kube-system/kubelet-config"},
		{"cluster-configuration", "kubeadm's ClusterConfiguration"},
	} {
		if len(values[document.key]) >= documentLimit {
			cut = append(cut, document.name)
		}
	}
	return cut
}

// mapKey returns a key of a ConfigMap in JSON; empty if it cannot be read.
func mapKey(text, key string) string {
	var m struct {
		Data map[string]string `json:"data"`
	}
	if untrusted.Object.UnmarshalYAML([]byte(text), &m) != nil {
		return ""
	}
	return m.Data[key]
}

// kubeadmRemoves are the flags that kubeadm itself removes from kubeletFlagsFile, by the first minor
// that does.
var kubeadmRemoves = map[string]version.Minor{"pod-infra-container-image": {Major: 1, Minor: 35}}

// refuseSettings refuses a host that gives the target's components settings which they lack, or that
// lacks what they need: they would not start, which shows only after they are replaced.
func refuseSettings(g Goal, f Facts) *Failure {
	if refused := refuseUnread(f); refused != nil && begins(g, f) {
		return refused
	}
	if refused := refuseToken(f); refused != nil && f.Installed != g.Version {
		return refused
	}
	found, wants := examineSettings(g, f)
	isWarning := func(r settings.Requirement) bool { return r.Warning }
	found, wants = settings.Errors(found), slices.DeleteFunc(wants, isWarning)
	switch {
	case len(found) > 0:
		return newFailure(RemovedSetting, "", "%s. Nothing was changed", settings.Describe(found))
	case len(wants) > 0:
		return newFailure(RemovedSetting, "", "%s. Nothing was changed", wants[0])
	}
	return nil
}

// Warnings returns what a person should know of the host's settings before anything is changed: what
// the target's components ignore, or only some later version refuses, and that nobody knows which
// settings they have. What the host is refused for is not in it.
func Warnings(g Goal, f Facts) []string {
	var warnings []string
	found, wants := examineSettings(g, f)
	for _, finding := range found {
		if finding.Warning {
			warnings = append(warnings, settings.Describe([]settings.Finding{finding}))
		}
	}
	for _, want := range wants {
		if want.Warning {
			warnings = append(warnings, want.String())
		}
	}
	if begins(g, f) {
		for _, name := range f.Config.Cut {
			warnings = append(warnings, fmt.Sprintf("%s has more than %d KiB, so its settings are "+
				"not known. Fix: compare them with the release notes of %s", name, documentLimit>>10,
				g.Version.Minor()))
		}
		for _, gap := range (settings.Upgrade{From: f.Installed, To: g.Version}).Gaps() {
			warnings = append(warnings, gap.String())
		}
	}
	return warnings
}

// examineSettings returns what is wrong with the settings that the host gives to the target's
// components, and what they need and the host lacks, without what is accepted. Once kubeadm has
// begun, it may have changed what is judged here, so only the goal's own arguments are.
func examineSettings(g Goal, f Facts) ([]settings.Finding, []settings.Requirement) {
	upgrade := settings.Upgrade{To: g.Version}
	uses := goalUses(g)
	var wants []settings.Requirement
	if begins(g, f) {
		upgrade.From = f.Installed
		uses = append(uses, hostUses(g, f)...)
		wants = requirements(g, f)
	}
	return settings.Accepted(settings.Check(upgrade, uses), g.Accepted), wants
}

// begins reports whether the host is to get another minor, and nothing has begun.
func begins(g Goal, f Facts) bool {
	return !f.Begun && f.Installed.Minor() != g.Version.Minor()
}

// requirements are those of the target that the host does not meet, and that are not accepted.
func requirements(g Goal, f Facts) []settings.Requirement {
	accepted := g.Accepted
	if settings.IgnoresCheck(g.IgnorePreflight, settings.SystemVerification) {
		// kubeadm's own check of cgroups and of the kernel is to be ignored.
		accepted = append(slices.Clip(accepted), settings.CgroupV2, settings.Kernel)
	}
	wants := settings.CheckMachine(g.Version.Minor(), machineOf(g, f))
	return slices.DeleteFunc(wants, func(r settings.Requirement) bool {
		return slices.Contains(accepted, r.ID)
	})
}

// machineOf returns the host as the target's requirements see it.
func machineOf(g Goal, f Facts) settings.Machine {
	machine := settings.Machine{
		CgroupV1: f.Config.CgroupV1, InPlace: true, Kernel: f.Config.Kernel,
		Runtime: settings.ParseContainerd(f.Config.Containerd),
	}
	if g.Distribution != Kubeadm {
		machine.Kernel, machine.KubeletArgs = "", true // It is kubeadm that asks for a kernel.
	}
	endpoint := ""
	for _, file := range append(slices.Clip(f.Rancher.Kubelet), f.Config.kubeletFiles()...) {
		var config struct {
			FailCgroupV1 *bool  `json:"failCgroupV1"`
			Endpoint     string `json:"containerRuntimeEndpoint"`
		}
		if untrusted.Object.UnmarshalYAML([]byte(file.Content), &config) != nil {
			continue
		}
		if f.Config.KubeletMap != "" && file.Content == f.Config.KubeletMap {
			// It replaces the host's file. The endpoint may be the host's own.
			machine.CgroupV1Allowed = false
		}
		if config.FailCgroupV1 != nil {
			machine.CgroupV1Allowed = !*config.FailCgroupV1
		}
		endpoint = cmp.Or(config.Endpoint, endpoint)
	}
	if fails, told := failsOnCgroupV1(kubeletWords(g, f)); told {
		machine.CgroupV1Allowed = !fails
	}
	if !usesContainerd(endpoint, g, f) {
		machine.Runtime = ""
	}
	return machine
}

// usesContainerd reports whether the kubelet's container runtime is containerd, which it is by default.
// endpoint is that of the kubelet's configuration; its arguments count more.
func usesContainerd(endpoint string, g Goal, f Facts) bool {
	for _, arg := range settings.ArgsOf(kubeletWords(g, f)) {
		if arg.Name == "--container-runtime-endpoint" {
			endpoint = arg.Value
		}
	}
	return endpoint == "" || strings.Contains(endpoint, "containerd")
}

// goalUses are the settings that the goal writes.
func goalUses(g Goal) []settings.Use {
	if g.Distribution != Kubeadm {
		return componentUses(g)
	}
	args := make([]settings.Arg, 0, len(g.KubeletArgs))
	for _, arg := range g.KubeletArgs {
		args = append(args, settings.Arg(arg))
	}
	place := settings.Place{Object: "the configuration of the machine", Path: "kubeletExtraArgs"}
	return settings.FromArgs(place, settings.Kubelet, args)
}

// hostUses are the settings that the host gives to the components.
func hostUses(g Goal, f Facts) []settings.Use {
	if g.Distribution != Kubeadm {
		return rancherUses(g, f)
	}
	var uses []settings.Use
	kubelet := func(object string, args []settings.Arg, running bool) {
		place := settings.Place{Object: object, Running: running}
		uses = append(uses, settings.FromArgs(place, settings.Kubelet, args)...)
	}
	known := settings.ArgsOf(flagWords(f.KubeletFlags))
	for i, source := range kubeletSources(g, f) {
		args := settings.ArgsOf(source.words)
		known = append(known, args...)
		if i == 0 {
			args = slices.DeleteFunc(args, func(arg settings.Arg) bool { return othersSet(g, arg) })
		}
		kubelet(source.object, args, false)
	}
	// No file that is read here gives the kubelet its other arguments.
	command := settings.ArgsOf(strings.Split(f.Config.Command, "\n"))
	kubelet("the kubelet that runs", slices.DeleteFunc(command, func(arg settings.Arg) bool {
		return slices.Contains(known, arg)
	}), true)
	object, content := f.Config.nextKubelet()
	uses = append(uses, fromDocument(object, content, settings.FromKubelet)...)
	if f.ControlPlane {
		cluster := fromDocument("kubeadm's ClusterConfiguration", f.Config.Cluster, settings.FromCluster)
		uses = append(uses, slices.DeleteFunc(cluster, func(u settings.Use) bool {
			return u.Component == settings.Kubeadm
		})...)
	}
	return uses
}

// othersSet reports whether an argument in kubeadm's file is removed by kubeadm, or is the goal's.
func othersSet(g Goal, arg settings.Arg) bool {
	isGoals := func(goals Arg) bool { return goals.Name == strings.TrimLeft(arg.Name, "-") }
	return kubeadmsToRemove(g, arg) || slices.ContainsFunc(g.KubeletArgs, isGoals)
}

// kubeadmsToRemove reports whether kubeadm upgrade removes an argument from its file.
func kubeadmsToRemove(g Goal, arg settings.Arg) bool {
	from, removes := kubeadmRemoves[strings.TrimLeft(arg.Name, "-")]
	return removes && !g.Version.Minor().Before(from)
}

// fromDocument returns the settings in a YAML document; none if it is not readable: kubeadm and the
// kubelet say so themselves.
func fromDocument(
	name, document string, read func(settings.Place, map[string]any) []settings.Use,
) []settings.Use {
	var config map[string]any
	if untrusted.Object.UnmarshalYAML([]byte(document), &config) != nil {
		return nil
	}
	return read(settings.Place{Object: name}, config)
}

// flagWords returns the arguments in kubeadm's file; none if it has a form that nobody changes.
func flagWords(content string) []string {
	file, err := parseKubeletFlags(content)
	if err != nil {
		return nil
	}
	return textsOf(file.words)
}

// setKubeletFlags returns kubeadm's file as the goal wants it. An argument that the version lacks is
// not kept if the goal has all arguments that people want.
func setKubeletFlags(g Goal, f Facts) (string, error) {
	content := f.KubeletFlags
	if !g.DropRemoved {
		return ComputeKubeletFlags(content, g.KubeletArgs)
	}
	file, err := parseKubeletFlags(content)
	if err != nil {
		return "", err
	}
	if lacking := lackingFlags(g, file.words); len(lacking) > 0 {
		file.words = without(file.words, lacking)
		content = file.String()
	}
	return ComputeKubeletFlags(content, g.KubeletArgs)
}

// lackingFlags are the names of the words that have nothing which the goal's version accepts, or
// somebody has accepted by name.
func lackingFlags(g Goal, words []flagWord) map[string]bool {
	lacking := map[string]bool{}
	for _, arg := range settings.ArgsOf(textsOf(words)) {
		if settings.LacksArg(g.Version, g.Accepted, settings.Kubelet, arg) {
			lacking[strings.TrimLeft(arg.Name, "-")] = true
		}
	}
	return lacking
}

func textsOf(words []flagWord) []string {
	texts := make([]string, 0, len(words))
	for _, w := range words {
		texts = append(texts, w.text)
	}
	return texts
}

// dropped are the arguments, with their dashes, that the goal does not keep in kubeadm's file.
func dropped(g Goal, f Facts) []string {
	file, err := parseKubeletFlags(f.KubeletFlags)
	if !g.DropRemoved || err != nil {
		return nil
	}
	var names []string
	for name := range lackingFlags(g, file.words) {
		names = append(names, "--"+name)
	}
	return names
}
