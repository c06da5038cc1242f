# A recorded snapshot exists and has its recorded size. A file alone proves nothing: it may be half of
# a snapshot, or that of another upgrade. Prints when it was saved.
source lib-check.sh
is_saved() {
  read -r _ size file <"$1" && [ "$(stat -c %s "$file")" = "$size" ] && stat -c %Y "$file"
}
is_saved "$OP/etcd-snapshot" && exit
# Once kubeadm has begun, only the snapshot from before that is of use, also after a change of the
# goal. A power cut may have left an etcd that nobody can save before kubeadm has run again.
[ -f "$KEEP/kubeadm" ] && is_saved "$KEEP/etcd-snapshot"
