package hosts

import (
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
	if refused := refusePatches(g, f); refused != nil {
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
	var steps []Step
	for _, b := range binaries {
		steps = append(steps, fetchStep(g, f, b))
	}
	if g.Snapshot && f.Member {
		steps = append(steps, etcdSnapshotStep(g, kubeadmSnapshot, snapshotPath(g), value{"path", snapshotPath(g)}))
	}
	steps = append(steps, drainSteps(g)...)
	if len(g.Before) > 0 {
		steps = append(steps, commandsStep(g, BeforeCommands, g.Before))
	}
	steps = append(steps, files...)
	steps = append(steps, installSteps(g, binaries, "kubeadm")...)
	steps = append(steps, upgradeStep(g, f))
	if f.ControlPlane && f.LocalServer != "" {
		steps = append(steps, endpointStep(g, f))
	}
	steps = append(steps, installSteps(g, binaries, "kubelet", kubectl)...)
	steps = append(steps, arguments...)
	if len(g.After) > 0 {
		steps = append(steps, commandsStep(g, AfterCommands, g.After))
	}
	steps = append(steps, restartStep(g, f, kubeletRuns, commandLimit))
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

// upgradeStep runs kubeadm. Its intent stands on the host first: apply changes the version in the cluster's configuration, from which a second
// look would conclude that another machine was the first.
func upgradeStep(g Goal, f Facts) Step {
	verb := computeVerb(g, f)
	values := []value{
		{"verb", verb}, {"patches", g.patches()}, {"own", g.ownPatches()},
		{"ignored", strings.Join(g.IgnorePreflight, ",")},
	}
	check := g.check(upgradeMarked)
	if f.ControlPlane {
		check = g.check(upgradeMarked+upgradeRuns, value{"tag", strings.ReplaceAll(g.Version.String(), "+", "_")})
	}
	return Step{
		Name: KubeadmUpgrade, Summary: "run " + describeUpgrade(g, verb), Check: check,
		Action: g.run(upgradeLimit,
			keepVerb+keepEndpoint+keepManifests+copyPatches+runKubeadm, values...),
	}
}

// describeUpgrade is the command of the step, for people.
func describeUpgrade(g Goal, verb string) string {
	command := "kubeadm upgrade " + verb
	if verb == verbApply {
		command += " " + g.Version.String() + " --yes"
	}
	if g.patches() != "" {
		command += " --patches '" + g.ownPatches() + "'"
	}
	if len(g.IgnorePreflight) > 0 {
		command += " --ignore-preflight-errors '" + strings.Join(g.IgnorePreflight, ",") + "'"
	}
	return command
}

const (
	upgradeMarked script = `marked kubeadm-upgrade "$target" || exit 1
`
	// upgradeRuns is true when the manifest of the API server has an image of the version.
	upgradeRuns script = `sed -n 's/^.*kube-apiserver:\([^" ]*\)"\{0,1\} *$/\1/p' /etc/kubernetes/manifests/kube-apiserver.yaml | grep -qxF -e "$tag"
`
	keepVerb script = `[ -f "$keep/kubeadm-verb-$version" ] || write "$keep/kubeadm-verb-$version" "$verb"
`
	// runKubeadm syncs what kubeadm wrote before it records that kubeadm ran.
	runKubeadm script = `command=("$bin/kubeadm" upgrade "$verb")
[ "$verb" != apply ] || command+=("$target" --yes)
if [ -n "$patches" ]; then
  copy_patches
  command+=(--patches "$own")
fi
[ -z "$ignored" ] || command+=(--ignore-preflight-errors "$ignored")
"${command[@]}"
sync -f /etc/kubernetes /var/lib/kubelet
mark kubeadm-upgrade "$target"
`
)

// keepEndpoint mends what kubeadm leaves behind when it is cut short: from v1.35 it moves the container runtime's endpoint out of the file with
// the kubelet's arguments, and writes that file before the one that the endpoint goes to. Its next run finds the endpoint in neither, and writes
// an empty one: the kubelet would look for another runtime. So the file is kept from before kubeadm's first run, and comes back until the
// endpoint has arrived.
const keepEndpoint script = `flags=` + kubeletFlagsFile + `
kept="$keep/kubeadm-flags-$version.env"
endpoint=--container-runtime-endpoint=
if [ ! -f "$kept" ] && [ -f "$flags" ]; then
  cp -p "$flags" "$kept.new"
  sync "$kept.new"
  mv "$kept.new" "$kept"
fi
if grep -qs -e $endpoint "$kept" && ! grep -qs -e $endpoint "$flags" && ! grep -qs 'containerRuntimeEndpoint: *"\{0,1\}[a-z/]' /var/lib/kubelet/instance-config.yaml; then
  echo 'kubeadm was cut short: the container runtime endpoint goes back to the arguments of the kubelet'
  rm -f /var/lib/kubelet/instance-config.yaml
  cp -p "$kept" "$flags.windlass-new"
  sync "$flags.windlass-new"
  mv "$flags.windlass-new" "$flags"
fi
`

// keepManifests puts back the manifests of static pods that kubeadm had moved away when it was cut short: without the API server's, it would take the
// machine for a worker. Only what it moved since its first run for this version comes back.
const keepManifests script = `for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do
  manifest=/etc/kubernetes/manifests/$name.yaml
  [ -e "$manifest" ] && continue
  backup=$(ls -td /etc/kubernetes/tmp/kubeadm-backup-manifests-*/"$name.yaml" 2>/dev/null | head -n 1) || true
  [ -n "$backup" ] && [ ! "$keep/kubeadm-verb-$version" -nt "$(dirname "$backup")" ] || continue
  echo "kubeadm was cut short: $name.yaml comes back from $backup"
  cp -p "$backup" "/etc/kubernetes/manifests/.$name.windlass-new"
  sync "/etc/kubernetes/manifests/.$name.windlass-new"
  mv "/etc/kubernetes/manifests/.$name.windlass-new" "$manifest"
done
`

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
		Check:   g.check(endpointIsLocal, value{"server", f.LocalServer}),
		Action:  g.run(commandLimit, setEndpoint, value{"server", f.LocalServer}),
	}
}

const (
	endpointIsLocal script = `case "$(sed -n 's/^ *server: *//p' /etc/kubernetes/kubelet.conf | head -n 1)" in
  "$server" | https://127.0.0.1:* | https://localhost:* | 'https://[::1]:'*) exit 0 ;;
esac
exit 1
`
	setEndpoint script = `conf=/etc/kubernetes/kubelet.conf
cp -p "$conf" "$state/kubelet.conf.before"
export server
awk 'match($0, /^ *server: */) { print substr($0, 1, RLENGTH) ENVIRON["server"]; next } { print }' "$conf" >"$conf.new"
chmod --reference="$conf" "$conf.new"
sync "$conf.new"
mv "$conf.new" "$conf"
`
)

// repeatCommand runs a command that may leave a process behind: that one must hold neither the job's lock nor its output, or the job would not end.
const repeatCommand script = `repeat() {
  status=0
  bash -c "$1" >"$state/command.out" 2>&1 </dev/null 8>&- || status=$?
  tail -c 8192 "$state/command.out"
  return $status
}
while read -r command; do repeat "$(base64 -d <<<"$command")"; done <<<"$commands"
sync
mark "$name" "$wanted"
`

// commandsStep runs commands that may be repeated. They run once for each goal; a power cut may run them again.
func commandsStep(g Goal, name Name, commands []string) Step {
	var lines []string
	for _, command := range commands {
		lines = append(lines, base64.StdEncoding.EncodeToString([]byte(command)))
	}
	values := []value{
		{"name", string(name)}, {"commands", strings.Join(lines, "\n")}, {"wanted", string(digestOf([]byte(strings.Join(commands, "\x00"))))},
	}
	return Step{
		Name: name, Summary: fmt.Sprintf("run %d of the configuration's commands: %s", len(commands), strings.Join(commands, "; ")),
		Check:  g.check(`marked "$name" "$wanted"`+"\n", values...),
		Action: g.run(upgradeLimit, repeatCommand, values...),
	}
}

// kubeletRuns prints what the kubelet is run with: its binary and all that it reads when it starts. A kubelet that runs since before its binary was
// replaced has the file that is gone.
const kubeletRuns script = `running() { { digest "$bin/kubelet"; cat /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml ` + kubeletFlagsFile + ` /etc/kubernetes/kubelet.conf \
  /etc/default/kubelet /etc/sysconfig/kubelet /etc/systemd/system/kubelet.service /etc/systemd/system/kubelet.service.d/*.conf \
  /usr/lib/systemd/system/kubelet.service.d/*.conf 2>/dev/null || true; } | sha256sum | cut -d ' ' -f 1; }
same() { pid=$(systemctl show --property MainPID --value kubelet) && [ "/proc/$pid/exe" -ef "$bin/kubelet" ]; }
`
