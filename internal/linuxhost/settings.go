package linuxhost

import (
	"regexp"
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
	// Units is the kubelet's unit with its drop-ins, and Defaults the files with arguments that people
	// write: /etc/default/kubelet and /etc/sysconfig/kubelet.
	Units, Defaults string
	// Kubelet is the kubelet's configuration file, and Cluster kubeadm's ClusterConfiguration, which
	// only a control plane host has.
	Kubelet, Cluster string
	// CgroupV1 says that the host has cgroups of version 1 only.
	CgroupV1 bool
}

// systemVerification is kubeadm's name for its check of the machine.
const systemVerification = "SystemVerification"

const kubeletConfigFile = kubeletFolder + "/config.yaml"

// kubeadmRemoves are the flags that kubeadm itself removes from kubeletFlagsFile, by the first minor
// that does.
var kubeadmRemoves = map[string]version.Minor{"pod-infra-container-image": {Major: 1, Minor: 35}}

// refuseSettings refuses a host that gives the target's components settings which they lack: they
// would not start, which shows only after they are replaced. Once kubeadm has begun, it may have
// changed what is judged here, so only the goal's own arguments are.
func refuseSettings(g Goal, f Facts) *Failure {
	upgrade := settings.Upgrade{To: g.Version}
	uses := goalUses(g)
	var wants []settings.Requirement
	if begins(g, f) {
		if refused := refuseUnread(f); refused != nil {
			return refused
		}
		upgrade.From = f.Installed
		uses = append(uses, hostUses(g, f)...)
		wants = requirements(g, f)
	}
	found := settings.Errors(settings.Accepted(settings.Check(upgrade, uses), g.Accepted))
	switch {
	case len(found) > 0:
		return newFailure(RemovedSetting, "", "%s. Nothing was changed", settings.Describe(found))
	case len(wants) > 0:
		return newFailure(RemovedSetting, "", "%s. Fix: %s. Nothing was changed",
			wants[0].Message, wants[0].Fix)
	}
	return nil
}

// begins reports whether the host is to get another minor, and nothing has begun.
func begins(g Goal, f Facts) bool {
	return !f.Begun && f.Installed.Minor() != g.Version.Minor()
}

// requirements are those of the target that the host does not meet, and that are no warnings.
func requirements(g Goal, f Facts) []settings.Requirement {
	machine := settings.Machine{CgroupV1: f.Config.CgroupV1}
	for _, file := range append(slices.Clip(f.Rancher.Kubelet), HostFile{Content: f.Config.Kubelet}) {
		var config struct {
			FailCgroupV1 *bool `json:"failCgroupV1"`
		}
		err := untrusted.Object.UnmarshalYAML([]byte(file.Content), &config)
		if err == nil && config.FailCgroupV1 != nil {
			machine.CgroupV1Allowed = !*config.FailCgroupV1
		}
	}
	accepted := g.Accepted
	if slices.Contains(g.IgnorePreflight, systemVerification) {
		// kubeadm's own check of cgroups is to be ignored.
		accepted = append(slices.Clip(accepted), settings.CgroupV2)
	}
	wants := settings.CheckMachine(g.Version.Minor(), machine)
	return slices.DeleteFunc(wants, func(r settings.Requirement) bool {
		return r.Warning || slices.Contains(accepted, r.ID)
	})
}

// goalUses are the settings that the goal writes.
func goalUses(g Goal) []settings.Use {
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
		return rancherUses(f)
	}
	var uses []settings.Use
	kubelet := func(object string, words []string, running bool) {
		place := settings.Place{Object: object, Running: running}
		uses = append(uses, settings.FromArgs(place, settings.Kubelet, settings.ArgsOf(words))...)
	}
	before, after := flagWords(f.KubeletFlags), flagWords(f.KubeletFlags)
	if content, err := setKubeletFlags(g, f); err == nil {
		after = flagWords(content)
	}
	kubelet(kubeletFlagsFile, slices.DeleteFunc(after, func(word string) bool {
		name := flagWord{text: word}.name()
		from, removes := kubeadmRemoves[name]
		isGoals := func(arg Arg) bool { return arg.Name == name }
		return removes && !g.Version.Minor().Before(from) || slices.ContainsFunc(g.KubeletArgs, isGoals)
	}), false)
	defaults, units := flagsIn(f.Config.Defaults), flagsIn(f.Config.Units)
	kubelet("/etc/default/kubelet", defaults, false)
	kubelet("the unit of the kubelet", units, false)
	// No file that is read here gives the kubelet its other arguments.
	known := slices.Concat(before, defaults, units)
	command := slices.DeleteFunc(strings.Split(f.Config.Command, "\n"), func(word string) bool {
		return slices.Contains(known, word)
	})
	kubelet("the kubelet that runs", command, true)
	uses = append(uses, fromDocument(kubeletConfigFile, f.Config.Kubelet, settings.FromKubelet)...)
	if f.ControlPlane {
		cluster := fromDocument("kubeadm's ClusterConfiguration", f.Config.Cluster, settings.FromCluster)
		uses = append(uses, slices.DeleteFunc(cluster, func(u settings.Use) bool {
			return u.Component == settings.Kubeadm
		})...)
	}
	return uses
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

// flagInText finds flags in units and in files of variables.
var flagInText = regexp.MustCompile(`--[A-Za-z][A-Za-z0-9_-]*(?:=["']?[^\s"']*)?`)

// flagsIn returns the flags in the lines of a text that are no comments.
func flagsIn(text string) []string {
	var words []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			for _, word := range flagInText.FindAllString(line, -1) {
				words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(word))
			}
		}
	}
	return words
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
	if lacking := lackingFlags(g.Version, file.words); len(lacking) > 0 {
		file.words = without(file.words, lacking)
		content = file.String()
	}
	return ComputeKubeletFlags(content, g.KubeletArgs)
}

// lackingFlags are the names of the words that have nothing which a version accepts.
func lackingFlags(v version.Version, words []flagWord) map[string]bool {
	lacking := map[string]bool{}
	for _, arg := range settings.ArgsOf(textsOf(words)) {
		if settings.LacksArg(v, settings.Kubelet, arg) {
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
	for name := range lackingFlags(g.Version, file.words) {
		names = append(names, "--"+name)
	}
	return names
}
