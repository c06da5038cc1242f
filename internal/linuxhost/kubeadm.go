package linuxhost

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
)

// The verbs of kubeadm upgrade. The first control plane machine applies, which upgrades what belongs to the cluster as well; all other
// machines upgrade themselves to what the cluster's configuration says.
const (
	verbApply = "apply"
	verbNode  = "node"
)

// kubeadmSteps are the steps of a host that kubeadm made. kubeadm goes before the kubelet: on a control plane it brings the API server to the
// version, and a kubelet must not be newer than the API server that it talks to.
func kubeadmSteps(g Goal, f Facts) ([]Step, *Failure) {
	binaries, missing := selectBinaries(g, f,
		binary{name: "kubeadm", tell: "version -o short"}, binary{name: "kubelet", tell: "--version"}, binary{name: kubectl, tell: "version --client -o yaml"})
	if missing != nil {
		return nil, missing
	}
	refused := cmp.Or(refusePatches(g, f), refuseSettings(g, f), refuseAuthorities(g, f),
		refuseStaticPods(g, f))
	if refused != nil {
		return nil, refused
	}
	proxies, refused := computeProxies(f)
	if refused != nil {
		return nil, refused
	}
	files, refused := filesSteps(g)
	if refused != nil {
		return nil, refused
	}
	arguments, refused := argumentsSteps(g, f)
	if refused != nil {
		return nil, refused
	}
	steps := prepareSteps(g, f, binaries, kubeadmImages(g, f, binaries))
	if len(g.Before) > 0 {
		steps = append(steps, commandsStep(g, BeforeCommands, g.Before))
	}
	steps = append(steps, files...)
	steps = append(steps, installSteps(g, binaries, "kubeadm")...)
	steps = append(steps, upgradeStep(g, f, proxies))
	if f.ControlPlane && f.LocalServer != "" {
		steps = append(steps, endpointStep(g, f))
	}
	steps = append(steps, installSteps(g, binaries, "kubelet", kubectl)...)
	steps = append(steps, arguments...)
	if len(g.After) > 0 {
		steps = append(steps, commandsStep(g, AfterCommands, g.After))
	}
	steps = append(steps, restartStep(g, f, commandLimit))
	if f.ControlPlane {
		steps = append(steps, controlPlaneStep(g, f))
	}
	return append(steps, endSteps(g)...), nil
}

func drainSteps(g Goal) []Step {
	if !g.Drain {
		return nil
	}
	return []Step{{Name: Drain, Summary: "cordon the node, and evict its pods", Action: DrainNode{}}}
}

func endSteps(g Goal) []Step {
	steps := []Step{{
		Name: NodeReady, Summary: fmt.Sprintf("wait until the node is Ready at %s, for up to %s", g.Version, g.readyWithin()), Action: AwaitNode{},
	}}
	if g.Drain {
		steps = append(steps, Step{Name: Uncordon, Summary: "make the node schedulable again, if it was", Action: UncordonNode{}})
	}
	return steps
}

// upgradeStep runs kubeadm.
func upgradeStep(g Goal, f Facts, proxies string) Step {
	verb, tag := computeVerb(g, f), ""
	if f.ControlPlane {
		tag = strings.ReplaceAll(g.Version.String(), "+", "_")
	}
	return Step{
		Name: KubeadmUpgrade, Summary: "run " + describeUpgrade(g, verb),
		Check: g.script("kubeadm-upgrade-check", value{"TAG", tag}),
		Action: g.run(upgradeLimit, "kubeadm-upgrade",
			value{"VERB", verb}, value{"PATCHES", g.patches()},
			value{"PATCHES_FOLDER", g.kubeadmPatches()},
			value{"IGNORED", strings.Join(g.IgnorePreflight, ",")}, value{"PROXIES", proxies}),
	}
}

// describeUpgrade is the command of the step, for people.
func describeUpgrade(g Goal, verb string) string {
	command := "kubeadm upgrade " + verb
	if verb == verbApply {
		command += " " + g.Version.String() + " --yes"
	}
	if folder := g.kubeadmPatches(); folder != "" {
		command += " --patches '" + folder + "'"
	}
	if len(g.IgnorePreflight) > 0 {
		command += " --ignore-preflight-errors '" + strings.Join(g.IgnorePreflight, ",") + "'"
	}
	return command
}

func computeVerb(g Goal, f Facts) string {
	switch {
	case f.Verb != "":
		return f.Verb
	case !f.ControlPlane:
		return verbNode
	case f.Cluster == g.Version:
		return verbNode
	}
	return verbApply
}

// endpointStep has the kubelet of a control plane machine talk to the API server beside it. Behind a balancer it may talk to one that is not
// upgraded yet, and a kubelet must not be newer than its API server. kubeadm does so itself from v1.31 where ControlPlaneKubeletLocalMode is
// on, and always from v1.36; then the step is done when it is looked at.
func endpointStep(g Goal, f Facts) Step {
	return Step{
		Name:    KubeletEndpoint,
		Summary: "have the kubelet talk to the API server of its own machine, " + f.LocalServer + " (as ControlPlaneKubeletLocalMode does)",
		Check:   g.script("kubelet-endpoint-check", value{"SERVER", f.LocalServer}),
		Action:  g.run(commandLimit, "kubelet-endpoint", value{"SERVER", f.LocalServer}),
	}
}

// controlPlaneStep waits for the static pods of the machine's control plane.
func controlPlaneStep(g Goal, f Facts) Step {
	return Step{
		Name: ControlPlaneReady,
		Summary: "wait until etcd, the API server and the controllers of the host are Ready, for up to " +
			g.readyWithin().String(),
		Check:  g.script("control-plane-check", value{"SERVER", f.LocalServer}),
		Action: AwaitControlPlane{},
	}
}

// commandsStep runs commands that may be repeated. They run once for each goal; a power cut may run them again.
func commandsStep(g Goal, name Name, commands []string) Step {
	var lines []string
	for _, command := range commands {
		lines = append(lines, base64.StdEncoding.EncodeToString([]byte(command)))
	}
	values := []value{
		{"RECORD", string(name)}, {"COMMANDS", strings.Join(lines, "\n")},
		{"DIGEST", string(digestOf([]byte(strings.Join(commands, "\x00"))))},
	}
	return Step{
		Name: name, Summary: fmt.Sprintf("run %d of the configuration's commands: %s", len(commands), strings.Join(commands, "; ")),
		Check:  g.script("commands-check", values...),
		Action: g.run(upgradeLimit, "commands", values...),
	}
}
