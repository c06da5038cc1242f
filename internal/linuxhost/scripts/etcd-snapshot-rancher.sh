# Asks the running server for a snapshot, which it keeps among its own.
source lib-job.sh
source lib-snapshot.sh
source lib-rancher.sh
folder=$data/server/db/snapshots
"$BIN/$DISTRIBUTION" etcd-snapshot save --name "$SNAPSHOT" ||
  fail SnapshotFailed "$DISTRIBUTION etcd-snapshot save failed"
file=$(ls -t "$folder/$SNAPSHOT"* 2>/dev/null | head -n 1) || true
[ -n "$file" ] || fail SnapshotFailed \
  "$DISTRIBUTION says that it saved etcd, but there is no $folder/$SNAPSHOT*"
ls -td "$folder"/windlass-* | tail -n +4 | while read -r old; do rm -rf "$old"; done
record_snapshot "$file"
