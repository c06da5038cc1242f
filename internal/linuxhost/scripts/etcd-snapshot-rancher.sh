# Asks the running server for a snapshot, which it keeps among its own. The command does not read
# the command line of the service, so it gets both folders.
source lib-job.sh
source lib-snapshot.sh
source lib-rancher.sh
unit=$(node_unit)
data=$(data_dir)
options=(--name "$SNAPSHOT" --data-dir "$data")
folder=$(setting etcd-snapshot-dir etcd-snapshot-dir)
[ -z "$folder" ] || options+=(--dir "$folder")
folder=${folder:-$data/server/db/snapshots}
"$BIN/$DISTRIBUTION" etcd-snapshot save "${options[@]}" ||
  fail SnapshotFailed "$DISTRIBUTION etcd-snapshot save failed"
file=$(ls -t "$folder/$SNAPSHOT"* 2>/dev/null | head -n 1) || true
[ -n "$file" ] || fail SnapshotFailed \
  "$DISTRIBUTION says that it saved etcd, but there is no $folder/$SNAPSHOT*"
ls -td "$folder"/windlass-* | tail -n +4 | while read -r old; do rm -rf "$old"; done
record_snapshot "$file"
