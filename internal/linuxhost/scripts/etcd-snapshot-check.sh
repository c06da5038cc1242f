# A recorded snapshot exists and has its recorded size. A file alone proves nothing: it may be half of
# a snapshot, or that of another upgrade. Prints when it was saved, unless it counts at any age.
source lib-check.sh
source lib-keep.sh
source lib-etcd.sh
is_saved() { read -r _ size file <"$1" && [ "$(stat -c %s "$file")" = "$size" ]; }
if ! is_saved "$OP/etcd-snapshot"; then
  # After a change of the goal, etcd is saved again. A power cut may have left an etcd that nobody can
  # save before kubeadm has run again: then the snapshot from before kubeadm began counts.
  has_begun && is_saved "$KEEP/etcd-snapshot" && ! is_healthy
  exit
fi
has_begun && { has_changed || ! is_healthy; } || stat -c %Y "$file"
