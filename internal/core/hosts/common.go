package hosts

import (
	"crypto/sha256"
	"encoding/hex"
)

func digestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(hex.EncodeToString(sum[:]))
}

func snapshotPath(g Goal) string { return StateFolder + "/snapshots/" + g.Operation() + ".db" }

// etcdSnapshotStep saves etcd. That a file is there proves nothing: it may be half of a snapshot, or that of another upgrade. The step is done
// where the file has the digest that was recorded after it was saved whole, for this operation.
func etcdSnapshotStep(g Goal, save, path string) Step {
	summary := "save etcd with " + string(g.Distribution) + " etcd-snapshot"
	if path != "" {
		summary = "save etcd to " + path
	}
	return Step{
		Name: EtcdSnapshot, Summary: summary,
		Check: checkHeader(g) + `read -r wanted path <"$op/etcd-snapshot" && [ "$(digest "$path")" = "$wanted" ]
`,
		Action: g.run(upgradeLimit, save+`sync "$path"
mark etcd-snapshot "$(digest "$path") $path
"
`),
	}
}

// kubeadmSnapshot saves the member beside the kubelet: with the host's etcdctl, or with the one in the member's own container. The newest three
// snapshots of earlier upgrades stay.
const kubeadmSnapshot = `mkdir -p "$(dirname "$path")"
chmod 0700 "$(dirname "$path")"
pki=/etc/kubernetes/pki/etcd
login=(--endpoints https://127.0.0.1:2379 --cacert $pki/ca.crt --cert $pki/healthcheck-client.crt --key $pki/healthcheck-client.key)
rm -f "$path" "$path.new" "$path.new.part"
if command -v etcdctl >/dev/null; then
  ETCDCTL_API=3 etcdctl "${login[@]}" snapshot save "$path.new" || fail ` + string(SnapshotFailed) + ` "etcdctl snapshot save failed"
elif command -v crictl >/dev/null; then
  member=$(crictl ps --quiet --state Running --name '^etcd$' | head -n 1)
  [ -n "$member" ] || fail ` + string(SnapshotFailed) + ` "there is no running container etcd on the host"
  data=$(sed -n 's/^.*--data-dir=//p' /etc/kubernetes/manifests/etcd.yaml | head -n 1)
  inside="${data:-/var/lib/etcd}/windlass-snapshot.db"
  rm -f "$inside" "$inside.part"
  crictl exec "$member" etcdctl "${login[@]}" snapshot save "$inside" || fail ` + string(SnapshotFailed) + ` "etcdctl snapshot save failed in the container of etcd"
  mv "$inside" "$path.new"
else
  fail ` + string(ToolMissing) + ` "the host has neither etcdctl nor crictl to save etcd with; install one, or set etcdSnapshot: Skip and save etcd in another way"
fi
[ -s "$path.new" ] || fail ` + string(SnapshotFailed) + ` "the snapshot of etcd is empty"
sync "$path.new"
mv "$path.new" "$path"
ls -t "$(dirname "$path")"/*.db | tail -n +4 | while read -r old; do rm -f "$old"; done
`

// restartStep restarts the service. runs defines `running`, which prints what the service is run with, and `same`, which looks at the running
// process itself. What was run with at the last restart stands on the host: a service that is restarted by somebody else since runs with it,
// too.
func restartStep(g Goal, f Facts, runs string) Step {
	service := f.Service
	return Step{
		Name: Restart, Summary: "systemctl daemon-reload, systemctl restart " + service,
		Check: checkHeader(g) + runs + `marked restart "$(running)" && systemctl is-active --quiet ` + service + " && same\n",
		Action: g.run(commandLimit, runs+`now=$(running)
systemctl daemon-reload
systemctl restart `+service+` || { journalctl --no-pager --lines 5 --unit `+service+` 2>/dev/null; fail `+string(StepFailed)+` "systemctl restart `+service+` failed"; }
calm=0
for _ in $(seq 60); do
  if systemctl is-active --quiet `+service+` && same; then calm=$((calm + 1)); else calm=0; fi
  [ $calm -ge 3 ] && break
  sleep 0.5
done
[ $calm -ge 3 ] || { journalctl --no-pager --lines 5 --unit `+service+` 2>/dev/null; fail `+string(StepFailed)+` "`+service+` does not stay up after its restart"; }
mark restart "$now"
`),
	}
}
