package hosts

// rancherSteps are the steps of a host that runs RKE2 or K3s: one binary is everything, and its service brings the rest to its version.
func rancherSteps(g Goal, f Facts) ([]Step, *Failure) {
	name := string(g.Distribution)
	binaries, missing := selectBinaries(g, f, binary{name: name, tell: "--version"})
	if missing != nil {
		return nil, missing
	}
	var steps []Step
	for _, b := range binaries {
		steps = append(steps, fetchStep(g, f, b))
	}
	if g.Snapshot && f.Member {
		steps = append(steps, etcdSnapshotStep(g, rancherSnapshot, "", value{"name", name}, value{"snapshot", "windlass-" + g.Operation()}))
	}
	steps = append(steps, drainSteps(g)...)
	steps = append(steps, installSteps(g, binaries, name)...)
	// The service of a server is up only when etcd and the images of the new version are.
	steps = append(steps, restartStep(g, f, rancherRuns, upgradeLimit, value{"name", name}))
	return append(steps, endSteps(g)...), nil
}

// rancherRuns prints what the service is run with.
const rancherRuns script = `running() { { digest "$bin/$name"; cat "/etc/rancher/$name/config.yaml" "/etc/rancher/$name/config.yaml.d"/*.yaml 2>/dev/null || true; } | sha256sum | cut -d ' ' -f 1; }
same() { true; }
`

// rancherSnapshot asks the running server for a snapshot, which it keeps among its own.
const rancherSnapshot script = `data=$(sed -n 's/^data-dir: *//p' "/etc/rancher/$name/config.yaml" 2>/dev/null | tr -d "\"'" | head -n 1) || true
folder=${data:-/var/lib/rancher/$name}/server/db/snapshots
"$bin/$name" etcd-snapshot save --name "$snapshot" || fail ` + script(SnapshotFailed) + ` "$name etcd-snapshot save failed"
path=$(ls -t "$folder/$snapshot"* 2>/dev/null | head -n 1) || true
[ -n "$path" ] || fail ` + script(SnapshotFailed) + ` "$name says that it saved etcd, but there is no $folder/$snapshot*"
ls -td "$folder"/windlass-* | tail -n +4 | while read -r old; do rm -rf "$old"; done
`
