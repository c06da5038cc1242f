# Runs kubeadm upgrade VERB. PATCHES are the goal's patches, one a line: the path below the folder
# OWN_PATCHES, and the content with an = in front, both in base64.
source lib-job.sh
source lib-kubectl.sh

# restore FILE COPY NEW puts a copy in the place of a file, whole or not at all. NEW is the copy
# while it is written.
restore() {
  cp -p "$2" "$3"
  sync "$3"
  mv "$3" "$1"
}

# The verb stands on the host before kubeadm runs: apply changes the version in the cluster's
# configuration, from which a second look would conclude that another machine was the first.
[ -f "$KEEP/kubeadm-verb-$VERSION" ] || write "$KEEP/kubeadm-verb-$VERSION" "$VERB"

# kubeadm leaves no endpoint behind when it is cut short: from v1.35 it moves the container
# runtime's endpoint out of the file with the kubelet's arguments, and writes that file before the
# one that the endpoint goes to. Its next run finds the endpoint in neither, and writes an empty
# one: the kubelet would look for another runtime. So the file is kept from before kubeadm's first
# run, and comes back until the endpoint has arrived.
keep_endpoint() {
  local flags=/var/lib/kubelet/kubeadm-flags.env kept="$KEEP/kubeadm-flags-$VERSION.env"
  local instance=/var/lib/kubelet/instance-config.yaml argument=--container-runtime-endpoint=
  if [ ! -f "$kept" ] && [ -f "$flags" ]; then restore "$kept" "$flags" "$kept.new"; fi
  if grep -qs -e $argument "$kept" && ! grep -qs -e $argument "$flags" &&
    ! grep -qs 'containerRuntimeEndpoint: *"\{0,1\}[a-z/]' $instance; then
    echo 'kubeadm was cut short: the container runtime endpoint' \
      'goes back to the arguments of the kubelet'
    rm -f $instance
    restore "$flags" "$kept" "$flags.windlass-new"
  fi
}

# kubeadm moves the manifests of static pods away, and may be cut short before it writes new ones, or
# before these are on the disk. Without the API server's, it would take the machine for a worker.
# Only what it moved since its first run for this version comes back.
restore_manifests() {
  local name manifest backup
  for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do
    manifest=/etc/kubernetes/manifests/$name.yaml
    [ -s "$manifest" ] && continue
    backup=$(ls -td /etc/kubernetes/tmp/kubeadm-backup-manifests-*/"$name.yaml" 2>/dev/null |
      head -n 1) || true
    [ -n "$backup" ] && [ ! "$KEEP/kubeadm-verb-$VERSION" -nt "$(dirname "$backup")" ] || continue
    echo "kubeadm was cut short: $name.yaml comes back from $backup"
    restore "$manifest" "$backup" "/etc/kubernetes/manifests/.$name.windlass-new"
  done
}

# copy_patches creates the folder of patches again, so that nothing else is in it.
copy_patches() {
  local below content file
  rm -rf "$OWN_PATCHES"
  mkdir "$OWN_PATCHES"
  while read -r below content; do
    file=$OWN_PATCHES/$(base64 -d <<<"$below")
    mkdir -p "$(dirname "$file")"
    base64 -d <<<"${content#=}" >"$file"
  done <<<"$PATCHES"
}

# keep_certificates undoes what a run of kubeadm that was cut short has done to certificates. It
# renews them and syncs nothing: etcd and the API server do not start with an empty file, or with a
# key of another certificate. Certificates from before its first run are as valid as renewed ones.
begun=$KEEP/kubeadm-begun-$VERSION certificates=$KEEP/kubernetes-$VERSION
keep_certificates() {
  local file
  if [ -f "$begun" ] && [ -d "$certificates" ]; then
    echo 'kubeadm was cut short: certificates come back from before its first run'
    (cd "$certificates" && find . -type f) | while read -r file; do
      cmp -s "$certificates/$file" "/etc/kubernetes/$file" ||
        restore "/etc/kubernetes/$file" "$certificates/$file" "/etc/kubernetes/$file.windlass-new"
    done
  elif [ ! -d "$certificates" ] && [ -d /etc/kubernetes/pki ]; then
    rm -rf "$certificates.new"
    (umask 077; mkdir "$certificates.new")
    (cd /etc/kubernetes && { find pki -type f; find . -maxdepth 1 -type f -name '*.conf'; } |
      xargs -d '\n' cp -p --parents --target-directory "$certificates.new")
    sync -f "$certificates.new"
    mv "$certificates.new" "$certificates"
  fi
  write "$begun" yes
}

# await_control_plane waits for what kubeadm refuses to begin without, and what takes a while after a
# power cut or after a manifest has come back: the API server, and the machine's node Ready. It ends
# in any case, because kubeadm explains best what is wrong.
await_control_plane() {
  local node ready='jsonpath={.status.conditions[?(@.type=="Ready")].status}'
  [ -f /etc/kubernetes/manifests/kube-apiserver.yaml ] && [ -n "$kubectl" ] || return 0
  # An API server that does not answer takes the time of a request.
  local end=$((SECONDS + 300))
  while [ $SECONDS -lt $end ]; do
    node=$(node_name 2>/dev/null) && kube admin get --raw /readyz >/dev/null 2>&1 &&
      [ "$(kube admin get node "$node" --output "$ready" 2>/dev/null)" = True ] && return
    sleep 2
  done
  echo 'the API server does not answer, or the node of this machine is not Ready'
}

keep_endpoint
restore_manifests
keep_certificates
await_control_plane
command=("$BIN/kubeadm" upgrade "$VERB")
[ "$VERB" != apply ] || command+=("$TARGET" --yes)
if [ -n "$PATCHES" ]; then
  copy_patches
  command+=(--patches "$OWN_PATCHES")
fi
[ -z "$IGNORED" ] || command+=(--ignore-preflight-errors "$IGNORED")
status=0
"${command[@]}" || status=$?
# What kubeadm wrote is synced before it is recorded that kubeadm ran.
sync -f /etc/kubernetes /var/lib/kubelet
rm -f "$begun"
[ $status = 0 ] || exit $status
mark kubeadm-upgrade "$TARGET"
rm -rf "$certificates"
