package hosts

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

func digestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(hex.EncodeToString(sum[:]))
}

func snapshotPath(g Goal) string { return StateFolder + "/snapshots/" + g.Operation() + ".db" }

// etcdSnapshotStep saves etcd. That a file is there proves nothing: it may be half of a snapshot, or that of another upgrade. The step is done
// where the file is as long as was recorded after it was saved whole and synced, for this operation. Its digest is on record too, for people:
// etcds are large, and steps are looked at often.
func etcdSnapshotStep(g Goal, save script, path string, values ...value) Step {
	summary := "save etcd with " + string(g.Distribution) + " etcd-snapshot"
	if path != "" {
		summary = "save etcd to " + path
	}
	return Step{
		Name: EtcdSnapshot, Summary: summary,
		Check: g.check(`read -r _ size path <"$op/etcd-snapshot" && [ "$(stat -c %s "$path")" = "$size" ]
`),
		Action: g.run(upgradeLimit, save+`sync "$path"
mark etcd-snapshot "$(digest "$path") $(stat -c %s "$path") $path
"
`, values...),
	}
}

// kubeadmSnapshot saves the member beside the kubelet: with the host's etcdctl, or with the one in the member's own container. The newest three
// snapshots of earlier upgrades stay.
const kubeadmSnapshot script = `mkdir -p "$(dirname "$path")"
chmod 0700 "$(dirname "$path")"
pki=/etc/kubernetes/pki/etcd
manifest=/etc/kubernetes/manifests/etcd.yaml
endpoint=$(sed -n 's/^.*--listen-client-urls=\([^,]*\).*$/\1/p' $manifest | head -n 1)
data=$(sed -n 's/^.*--data-dir=//p' $manifest | head -n 1)
data=${data:-/var/lib/etcd}
# A snapshot that fills the disk of a member takes the member down.
need=$(($(stat -c %s "$data/member/snap/db" 2>/dev/null || echo 0) * 6 / 5 / 1024))
for folder in "$data" "$(dirname "$path")"; do
  [ ! -d "$folder" ] || [ "$(df -Pk "$folder" | awk 'NR==2 {print $4}')" -gt $need ] ||
    fail ` + script(DiskFull) + ` "$folder has no room for a snapshot of etcd of about $((need / 1024)) MiB"
done
login=(--endpoints "${endpoint:-https://127.0.0.1:2379}" --cacert "$pki/ca.crt" --cert "$pki/healthcheck-client.crt" --key "$pki/healthcheck-client.key")
rm -f "$path" "$path.new" "$path.new.part"
if command -v etcdctl >/dev/null; then
  ETCDCTL_API=3 etcdctl "${login[@]}" snapshot save "$path.new" || fail ` + script(SnapshotFailed) + ` "etcdctl snapshot save failed"
elif command -v crictl >/dev/null; then
  member=$(crictl ps --quiet --state Running --name '^etcd$' | head -n 1)
  [ -n "$member" ] || fail ` + script(SnapshotFailed) + ` "there is no running container etcd on the host"
  inside="$data/windlass-snapshot.db"
  rm -f "$inside" "$inside.part"
  crictl exec "$member" etcdctl "${login[@]}" snapshot save "$inside" || fail ` + script(SnapshotFailed) + ` "etcdctl snapshot save failed in the container of etcd"
  mv "$inside" "$path.new"
else
  fail ` + script(ToolMissing) + ` "the host has neither etcdctl nor crictl to save etcd with; install one, or set etcdSnapshot: Skip and save etcd in another way"
fi
[ -s "$path.new" ] || fail ` + script(SnapshotFailed) + ` "the snapshot of etcd is empty"
sync "$path.new"
mv "$path.new" "$path"
ls -t "$(dirname "$path")"/*.db | tail -n +4 | while read -r old; do rm -f "$old"; done
`

// restartStep restarts the service, and sees it run for a while as one process: a node stays Ready in its cluster for some time after its service is
// gone. runs defines `running`, which prints what the service is run with, and `same`, which looks at the running process itself. What was run with
// at the last restart stands on the host: a service that somebody else has restarted since runs with it, too.
func restartStep(g Goal, f Facts, runs script, limit time.Duration, values ...value) Step {
	values = append(values, value{"service", f.Service}, value{"wanted", strconv.Itoa(int(max(1, g.settle()/(time.Second/2))))})
	return Step{
		Name: Restart, Summary: "systemctl daemon-reload, systemctl restart " + f.Service,
		Check:  g.check(runs+`marked restart "$(running)" && systemctl is-active --quiet "$service" && same`+"\n", values...),
		Action: g.run(limit, runs+restartService, values...),
	}
}

// restartService counts looks, half a second apart, in which one process runs.
const restartService script = `now=$(running)
began=$(date +%s)
complain() { journalctl --no-pager --lines 5 --since "@$began" --unit "$service" 2>/dev/null || true; fail ` + script(StepFailed) + ` "$1; see journalctl --unit $service on the host"; }
systemctl daemon-reload
systemctl restart "$service" || complain "systemctl restart $service failed"
calm=0 pid=
for _ in $(seq 60); do
  before=$pid
  pid=$(systemctl show --property MainPID --value "$service")
  if systemctl is-active --quiet "$service" && same && [ "$pid" = "$before" ]; then calm=$((calm + 1)); else calm=0; fi
  [ "$calm" -ge "$wanted" ] && break
  sleep 0.5
done
if [ "$calm" -lt "$wanted" ]; then
  systemctl is-active --quiet "$service" && ! same && complain "$service runs another program than the one in $bin"
  complain "$service does not stay up after its restart"
fi
mark restart "$now"
`
