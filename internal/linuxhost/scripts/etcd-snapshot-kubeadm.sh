# Saves the member of etcd beside the kubelet to FILE: with the host's etcdctl, or with the one in
# the member's own container. The newest three snapshots of earlier upgrades stay.
source lib-job.sh
source lib-snapshot.sh
source lib-etcd.sh
source lib-disk.sh
source lib-keep.sh
folder=$(dirname "$FILE")
mkdir -p "$folder"
chmod 0700 "$folder"
# What a snapshot left that was cut short, of any upgrade, takes the room of this one.
rm -f "$folder"/*.new "$folder"/*.new.part "$data"/windlass-snapshot.db{,.part}
# A snapshot that fills the disk of a member takes the member down. There was room when the upgrade
# began.
snapshot_room
for place in "$data" "$folder"; do
  [ -d "$place" ] || continue
  disk "$place"
  [ "$free_kb" -gt $snapshot_kb ] ||
    fail DiskFull "$place has no room for a snapshot of etcd of about $((snapshot_kb / 1024)) MiB"
done

# A snapshot replaces that of its own operation only, and none after which kubeadm has changed the
# host.
own=$(cut -d ' ' -f 3- "$OP/etcd-snapshot" 2>/dev/null) || true
if has_begun && has_changed; then own=; fi
while [ -e "$FILE" ] && [ "$FILE" != "$own" ]; do FILE=${FILE%.db}-1.db; done
has_client ||
  fail ToolMissing "the host has neither etcdctl nor crictl to save etcd with any more"
saved="$FILE.new"
command -v etcdctl >/dev/null || saved="$data/windlass-snapshot.db"
# After a power cut, etcd takes a while.
for _ in $(seq 30); do client endpoint health && break; sleep 2; done
client snapshot save "$saved" || fail SnapshotFailed "etcdctl snapshot save failed"
[ "$saved" = "$FILE.new" ] || mv "$saved" "$FILE.new"
[ -s "$FILE.new" ] || fail SnapshotFailed "the snapshot of etcd is empty"
sync "$FILE.new"
mv "$FILE.new" "$FILE"
# If the clock was set back, older snapshots seem to be newer than this one.
ls -t "$folder"/*.db | { grep -vxF -e "$FILE" || true; } | tail -n +3 | while read -r old; do rm -f "$old"; done
record_snapshot "$FILE"
