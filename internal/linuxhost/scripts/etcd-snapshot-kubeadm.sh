# Saves the member of etcd beside the kubelet to FILE: with the host's etcdctl, or with the one in
# the member's own container. The newest three snapshots of earlier upgrades stay.
source lib-job.sh
source lib-snapshot.sh
folder=$(dirname "$FILE")
mkdir -p "$folder"
chmod 0700 "$folder"
pki=/etc/kubernetes/pki/etcd
manifest=/etc/kubernetes/manifests/etcd.yaml
endpoint=$(sed -n 's/^.*--listen-client-urls=\([^,]*\).*$/\1/p' $manifest | head -n 1)
data=$(sed -n 's/^.*--data-dir=//p' $manifest | head -n 1)
data=${data:-/var/lib/etcd}
# A snapshot that fills the disk of a member takes the member down.
need=$(($(stat -c %s "$data/member/snap/db" 2>/dev/null || echo 0) * 6 / 5 / 1024))
for disk in "$data" "$folder"; do
  [ ! -d "$disk" ] || [ "$(df -Pk "$disk" | awk 'NR==2 {print $4}')" -gt $need ] ||
    fail DiskFull "$disk has no room for a snapshot of etcd of about $((need / 1024)) MiB"
done

saved="$FILE.new"
command -v etcdctl >/dev/null || saved="$data/windlass-snapshot.db"
# etcdctl is that of the host, or of the container, which has the folder of etcd's data at the same
# path.
client() {
  local login member
  login=(--endpoints "${endpoint:-https://127.0.0.1:2379}" --cacert "$pki/ca.crt"
    --cert "$pki/healthcheck-client.crt" --key "$pki/healthcheck-client.key")
  if command -v etcdctl >/dev/null; then
    ETCDCTL_API=3 etcdctl "${login[@]}" "$@"
  elif command -v crictl >/dev/null; then
    member=$(crictl ps --quiet --state Running --name '^etcd$' | head -n 1)
    [ -n "$member" ] || { echo 'there is no running container etcd on the host'; return 1; }
    crictl exec "$member" etcdctl "${login[@]}" "$@"
  else
    fail ToolMissing "the host has neither etcdctl nor crictl to save etcd with any more"
  fi
}
# After a power cut, etcd takes a while.
for _ in $(seq 30); do client endpoint health && break; sleep 2; done
rm -f "$FILE" "$FILE.new" "$FILE.new.part" "$saved" "$saved.part"
client snapshot save "$saved" || fail SnapshotFailed "etcdctl snapshot save failed"
[ "$saved" = "$FILE.new" ] || mv "$saved" "$FILE.new"
[ -s "$FILE.new" ] || fail SnapshotFailed "the snapshot of etcd is empty"
sync "$FILE.new"
mv "$FILE.new" "$FILE"
ls -t "$folder"/*.db | tail -n +4 | while read -r old; do rm -f "$old"; done
record_snapshot "$FILE"
