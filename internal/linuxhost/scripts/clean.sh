# Removes what an upgrade that is done does not need: binaries that are in their places take as much
# room as these. What is kept of kubeadm's runs is of this upgrade only: the next one, also to the
# same version, has not begun. Records that the upgrade is done, so that nobody waits for it.
source lib-job.sh
source lib-keep.sh
rm -rf "$STATE/binaries" # first: the disk may be full
# After a change of the goal, the snapshot from before kubeadm began is that of the new one.
[ -f "$OP/etcd-snapshot" ] || [ ! -f "$KEEP/etcd-snapshot" ] || ! has_begun ||
  mark etcd-snapshot "$(<"$KEEP/etcd-snapshot")
"
rm -rf "$KEEP"/before-kubeadm* "$KEEP"/{kubeadm,etcd-snapshot} "$KEEP"/node{,.new} \
  "$KEEP"/{not-started,put-back}
mark "done" yes
