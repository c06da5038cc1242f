package hosts

import (
	"encoding/base64"
	"fmt"
	"slices"
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
	var steps []Step
	for _, b := range binaries {
		steps = append(steps, fetchStep(g, f, b))
	}
	if g.Snapshot && f.Member {
		steps = append(steps, etcdSnapshotStep(g, "path="+quote(snapshotPath(g))+"\n"+kubeadmSnapshot, snapshotPath(g)))
	}
	steps = append(steps, drainSteps(g)...)
	if len(g.Before) > 0 {
		steps = append(steps, commandsStep(g, BeforeCommands, g.Before))
	}
	if len(g.Files) > 0 {
		steps = append(steps, filesStep(g))
	}
	steps = append(steps, installSteps(g, binaries, "kubeadm")...)
	steps = append(steps, upgradeStep(g, f))
	if f.ControlPlane && f.LocalServer != "" {
		steps = append(steps, endpointStep(g, f))
	}
	steps = append(steps, installSteps(g, binaries, "kubelet", kubectl)...)
	if len(g.KubeletArgs) > 0 {
		steps = append(steps, argumentsStep(g, f))
	}
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
	command := `"$bin/kubeadm" upgrade ` + verb
	if verb == verbApply {
		command += " " + g.Version.String() + " --yes"
	}
	if g.PatchesFolder != "" {
		command += " --patches " + quote(g.PatchesFolder)
	}
	if len(g.IgnorePreflight) > 0 {
		command += " --ignore-preflight-errors " + quote(strings.Join(g.IgnorePreflight, ","))
	}
	check := checkHeader(g) + "marked kubeadm-upgrade " + g.Version.String() + "\n"
	if f.ControlPlane {
		tag := strings.ReplaceAll(g.Version.String(), "+", "_")
		check = checkHeader(g) + "marked kubeadm-upgrade " + g.Version.String() + ` && grep -q 'kube-apiserver:` + tag + `"\{0,1\} *$' /etc/kubernetes/manifests/kube-apiserver.yaml` + "\n"
	}
	return Step{
		Name: KubeadmUpgrade, Summary: "run " + strings.ReplaceAll(command, `"$bin/kubeadm"`, "kubeadm"), Check: check,
		Action: g.run(upgradeLimit, `[ -f "$keep/kubeadm-verb-$version" ] || write "$keep/kubeadm-verb-$version" `+verb+"\n"+keepEndpoint+keepManifests+command+
			"\n# What kubeadm wrote must be on the disk before anything says that it ran.\nsync -f /etc/kubernetes /var/lib/kubelet\nmark kubeadm-upgrade "+g.Version.String()+"\n"),
	}
}

// keepEndpoint mends what kubeadm leaves behind when it is cut short: from v1.35 it moves the container runtime's endpoint out of the file with
// the kubelet's arguments, and writes that file before the one that the endpoint goes to. Its next run finds the endpoint in neither, and writes
// an empty one: the kubelet would look for another runtime. So the file is kept from before kubeadm's first run, and comes back until the
// endpoint has arrived.
const keepEndpoint = `flags=` + kubeletFlagsFile + `
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
const keepManifests = `for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do
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
		Check: checkHeader(g) + `case "$(sed -n 's/^ *server: *//p' /etc/kubernetes/kubelet.conf | head -n 1)" in
  ` + quote(f.LocalServer) + ` | https://127.0.0.1:* | https://localhost:* | 'https://[::1]:'*) exit 0 ;;
esac
exit 1
`,
		Action: g.run(commandLimit, `conf=/etc/kubernetes/kubelet.conf
cp -p "$conf" "$state/kubelet.conf.before"
sed 's|^\( *server: *\).*$|\1`+f.LocalServer+`|' "$conf" >"$conf.new"
chmod --reference="$conf" "$conf.new"
sync "$conf.new"
mv "$conf.new" "$conf"
`),
	}
}

const kubeletFlagsFile = "/var/lib/kubelet/kubeadm-flags.env"

// argumentsStep sets the kubelet's arguments in the file that kubeadm made for them.
func argumentsStep(g Goal, f Facts) Step {
	content := ComputeKubeletFlags(f.KubeletFlags, g.KubeletArgs)
	step := writeStep(g, []File{{Path: kubeletFlagsFile, Content: []byte(content)}})
	step.Name = KubeletArguments
	var names []string
	for _, arg := range g.KubeletArgs {
		names = append(names, "--"+arg.Name)
	}
	step.Summary = "set the kubelet's arguments " + strings.Join(slices.Compact(names), ", ") + " in " + kubeletFlagsFile
	return step
}

const kubeletFlagsVariable = "KUBELET_KUBEADM_ARGS="

// ComputeKubeletFlags gives kubeadm's file with a kubelet's arguments, with some of them set. Arguments that are not named stay as they are, in
// their order: kubeadm set some of them itself. It gives the same again for what it gave.
func ComputeKubeletFlags(content string, args []Arg) string {
	line, rest := "", []string{}
	for candidate := range strings.Lines(content) {
		candidate = strings.TrimRight(candidate, "\n")
		if value, ok := strings.CutPrefix(candidate, kubeletFlagsVariable); ok {
			line = strings.Trim(value, `"`)
		} else if candidate != "" {
			rest = append(rest, candidate)
		}
	}
	set := map[string]bool{}
	for _, arg := range args {
		set[arg.Name] = true
	}
	words := slices.DeleteFunc(strings.Fields(line), func(word string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		return set[name]
	})
	for _, arg := range args {
		words = append(words, "--"+arg.Name+"="+arg.Value)
	}
	return strings.Join(append([]string{kubeletFlagsVariable + `"` + strings.Join(words, " ") + `"`}, rest...), "\n") + "\n"
}

func filesStep(g Goal) Step {
	files := g.sortedFiles()
	step := writeStep(g, files)
	step.Name = WriteFiles
	var paths []string
	for _, file := range files {
		paths = append(paths, file.Path)
	}
	step.Summary = "write " + strings.Join(paths, ", ")
	return step
}

// writeStep writes files: beside, synced, renamed. Those that are as they should be are left alone.
func writeStep(g Goal, files []File) Step {
	var check, write strings.Builder
	check.WriteString(checkHeader(g))
	write.WriteString(`put() {
  mkdir -p "$(dirname "$1")"
  (umask 077; base64 -d >"$1.windlass-new")
  chown "$2" "$1.windlass-new"
  chmod "$3" "$1.windlass-new"
  sync "$1.windlass-new"
  mv "$1.windlass-new" "$1"
}
`)
	for _, file := range files {
		owner, permissions := file.Owner, file.Permissions
		if owner == "" {
			owner = "root:root"
		}
		if permissions == "" {
			permissions = "0644"
		}
		fmt.Fprintf(&check, "[ \"$(digest %s)\" = %s ] && [ \"$(stat -c %%U:%%G:%%a %s)\" = %s ] || { echo %s; exit 1; }\n",
			quote(file.Path), digestOf(file.Content), quote(file.Path), quote(owner+":"+strings.TrimLeft(permissions, "0")), quote(file.Path+" differs"))
		fmt.Fprintf(&write, "put %s %s %s <<'WINDLASS'\n%s\nWINDLASS\n", quote(file.Path), quote(owner), quote(permissions), base64.StdEncoding.EncodeToString(file.Content))
	}
	return Step{Check: check.String(), Action: g.run(commandLimit, write.String())}
}

// repeatCommand runs a command that may leave a process behind: that one must hold neither the job's lock nor its output, or the job would not end.
const repeatCommand = `repeat() {
  status=0
  bash -c "$1" >"$state/command.out" 2>&1 </dev/null 8>&- || status=$?
  tail -c 8192 "$state/command.out"
  return $status
}
`

// commandsStep runs commands that may be repeated. They run once for each goal; a power cut may run them again.
func commandsStep(g Goal, name Name, commands []string) Step {
	sum := digestOf([]byte(strings.Join(commands, "\x00")))
	var script strings.Builder
	script.WriteString(repeatCommand)
	for _, command := range commands {
		script.WriteString("repeat " + quote(command) + "\n")
	}
	script.WriteString("sync\n")
	return Step{
		Name: name, Summary: fmt.Sprintf("run %d of the configuration's commands: %s", len(commands), strings.Join(commands, "; ")),
		Check:  checkHeader(g) + "marked " + string(name) + " " + string(sum) + "\n",
		Action: g.run(upgradeLimit, script.String()+"mark "+string(name)+" "+string(sum)+"\n"),
	}
}

// kubeletRuns prints what the kubelet is run with: its binary and all that it reads when it starts. A kubelet that runs since before its binary was
// replaced has the file that is gone.
const kubeletRuns = `running() { { digest "$bin/kubelet"; cat /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml ` + kubeletFlagsFile + ` /etc/kubernetes/kubelet.conf \
  /etc/default/kubelet /etc/sysconfig/kubelet /etc/systemd/system/kubelet.service /etc/systemd/system/kubelet.service.d/*.conf \
  /usr/lib/systemd/system/kubelet.service.d/*.conf 2>/dev/null || true; } | sha256sum | cut -d ' ' -f 1; }
same() { pid=$(systemctl show --property MainPID --value kubelet) && [ "/proc/$pid/exe" -ef "$bin/kubelet" ]; }
`
