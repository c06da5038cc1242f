# record_snapshot FILE records a snapshot that was saved whole, for this operation. Its digest is on
# record for people: etcds are large, and steps are looked at often.
record_snapshot() {
  sync "$1"
  mark etcd-snapshot "$(digest "$1") $(stat -c %s "$1") $1
"
}
