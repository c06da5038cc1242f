# Runs kubeadm upgrade VERB. PATCHES are the goal's patches, one a line: the path below the folder
# PATCHES_FOLDER, and the content with an = in front, both in base64. PROXIES are variables for
# kubeadm, one a line: NAME=VALUE in base64.
source lib-job.sh
source lib-kubectl.sh
source lib-kubeadm.sh
source lib-disk.sh
source lib-etcd.sh
source lib-kept.sh

# record writes the version and the verb before kubeadm runs: apply changes the version in the
# cluster's configuration, from which a second look would conclude that another machine was the
# first. The record ends with the upgrade, also if the goal changes to another version of the minor.
# Until then the snapshot of etcd from before kubeadm's first change is the one that counts, for a
# day.
record() {
  has_begun || rm -f "$KEEP/etcd-snapshot"
  [ ! -f "$OP/etcd-snapshot" ] || has_changed ||
    write "$KEEP/etcd-snapshot" "$(<"$OP/etcd-snapshot")
"
  [ "$(cat "$KEEP/kubeadm" 2>/dev/null)" = "$VERSION $VERB" ] ||
    write "$KEEP/kubeadm" "$VERSION $VERB
"
}

# make_room removes copies of etcd of earlier runs, if etcd is healthy without them. A copy that
# fills the disk of a member takes the member down.
make_room() {
  local old
  [ -f "$manifest" ] || return 0
  old=$(old_copies)
  if [ -n "$old" ] && has_client && client endpoint health; then
    xargs -d '\n' rm -rf <<<"$old"
  fi
  mkdir -p "$temporary"
  copy_room
  disk "$temporary"
  [ "$free_kb" -gt "${copy_kb:-0}" ] || fail DiskFull "$temporary has no room for kubeadm's images and \
copy of etcd of about $((copy_kb / 1024)) MiB. kubeadm keeps old copies, kubeadm-backup-etcd-*"
}

# keep copies what kubeadm changes. A copy from before another run is of no use: somebody may have
# renewed certificates since. It fails if there is one: kubeadm-recover has not undone that run.
keep() {
  rm -rf "$before.new" "$before.old"
  (umask 077; mkdir "$before.new")
  {
    find -H /etc/kubernetes/pki -type f || true
    find /etc/kubernetes -maxdepth 1 -type f -name '*.conf' || true
    static_pods ''
    ls -d "${kubelet_files[@]}" || true
  } 2>/dev/null | (cd / && sed 's,^/,,' | xargs -d '\n' cp -p --parents --target-directory "$before.new")
  digest "$BIN/kubelet" >"$before.new/kubelet.digest" || true
  sync -f "$before.new"
  mv -T "$before.new" "$before"
  sync "$KEEP"
}

# copy_patches creates the folder of patches again, so that nothing else is in it.
copy_patches() {
  local below content file
  rm -rf "$PATCHES_FOLDER"
  mkdir "$PATCHES_FOLDER"
  while read -r below content; do
    file=$PATCHES_FOLDER/$(base64 -d <<<"$below")
    mkdir -p "$(dirname "$file")"
    base64 -d <<<"${content#=}" >"$file"
  done <<<"$PATCHES"
}

# sync_manifests syncs manifests for as long as kubeadm runs, because kubeadm does not sync them. A
# new etcd syncs its data. After a power cut, an older manifest would start an older etcd, which
# refuses that data. The file alive tells when kubeadm last ran.
sync_manifests() {
  local folder=/etc/kubernetes/manifests
  while [ -n "$(jobs -rp)" ]; do
    { : >"$before/alive"; } 2>/dev/null || true
    sync $folder/*.yaml $folder 2>/dev/null || true
    sleep 1
  done
}

await_control_plane
make_room
keep_node
[ -e /var/lib/kubelet/instance-config.yaml ] || note_created /var/lib/kubelet/instance-config.yaml
record
keep
command=("$BIN/kubeadm" upgrade "$VERB")
[ "$VERB" != apply ] || command+=("$TARGET" --yes)
[ -z "$PATCHES" ] || copy_patches
[ -z "$PATCHES_FOLDER" ] || command+=(--patches "$PATCHES_FOLDER")
[ -z "$IGNORED" ] || command+=(--ignore-preflight-errors "$IGNORED")
while read -r variable; do
  [ -z "$variable" ] || export "$(base64 -d <<<"$variable")"
done <<<"$PROXIES"
status=0
: >"$before/alive"
"${command[@]}" &
sync_manifests
wait $! || status=$?
# kubeadm itself undoes manifests only, and nothing if it is killed. If a file cannot be put back,
# the job ends here, and the next attempt puts it back.
[ $status = 0 ] || put_all_back
# What kubeadm wrote is synced before it is recorded that kubeadm ran.
end_run
[ $status = 0 ] || exit $status
mark kubeadm-upgrade "$TARGET"
