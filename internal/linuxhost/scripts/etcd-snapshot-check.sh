# A recorded snapshot exists and has its recorded size. A file alone proves nothing: it may be half of
# a snapshot, or that of another upgrade. Prints when it was saved, unless it counts at any age.
source lib-check.sh
source lib-keep.sh
source lib-etcd.sh
is_saved() { read -r _ size file <"$1" && [ "$(stat -c %s "$file")" = "$size" ]; }
# Once kubeadm has begun, only the snapshot from before that is of use, also after a change of the
# goal. One that is older than a day is of an upgrade that nobody saw to its end: while kubeadm has
# to run, it counts only if etcd is down. A power cut may have left an etcd that nobody can save
# before kubeadm has run again.
counts() { [ -n "$(find "$file" -mmin -1440)" ] || ! is_healthy; }
own() {
  is_saved "$OP/etcd-snapshot" && { ! has_begun || marked kubeadm-upgrade "$TARGET" || counts; }
}
own || { has_begun && is_saved "$KEEP/etcd-snapshot" && counts; } || exit
has_begun && { has_changed || ! is_healthy; } || stat -c %Y "$file"
