# A recorded snapshot exists and has its recorded size. A file alone proves nothing: it may be half of
# a snapshot, or that of another upgrade. Prints when it was saved, unless it counts at any age.
source lib-check.sh
source lib-etcd.sh
is_saved() { read -r _ size file <"$1" && [ "$(stat -c %s "$file")" = "$size" ]; }
# Once kubeadm has begun, only the snapshot from before that is of use, also after a change of the
# goal. A power cut may have left an etcd that nobody can save before kubeadm has run again.
begun() { [ -f "$KEEP/kubeadm" ]; }
is_saved "$OP/etcd-snapshot" || { begun && is_saved "$KEEP/etcd-snapshot"; } || exit
begun && { has_changed || ! client --command-timeout 3s endpoint health >/dev/null 2>&1; } ||
  stat -c %Y "$file"
