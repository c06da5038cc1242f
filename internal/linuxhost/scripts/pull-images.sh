# Brings the images that kubeadm lists for the version to the host, before anything is changed:
# those that the host lacks, from ARCHIVE if there is one, else from their registries. LOGIN names
# the credentials with which kubeadm's configuration is read. WORKER is set on a worker: it needs
# kube-proxy if it runs one, and the pause image only if its runtime is not configured for another.
source lib-job.sh
source lib-kubectl.sh
source lib-room.sh
source lib-images.sh
source lib-answer.sh
config=$OP/images.yaml
name=$(basename "$ARCHIVE")

# skip ends the step where nobody can tell which images are needed, or which are there.
skip() {
  echo "the images are not looked at: $1"
  mark images ''
  exit 0
}

# read_config writes kubeadm's configuration with the goal's version. It leaves out kubeadm's own
# gates: this command refuses those that its version does not have, and kubeadm upgrade does not. No
# image depends on them.
read_config() {
  local told
  for _ in 1 2 3; do
    if told=$(kube "$LOGIN" --namespace kube-system get configmap kubeadm-config \
      --output 'jsonpath={.data.ClusterConfiguration}' 2>&1); then
      printf '%s\n' "$told" | sed -e "s/^kubernetesVersion:.*/kubernetesVersion: $TARGET/" \
        -e '/^featureGates:/,/^[^ ]/ { /^featureGates:/d; /^ /d; }' >"$config"
      return
    fi
    sleep 2
  done
  fail ConfigUnreadable "the ConfigMap kube-system/kubeadm-config cannot be read with the host's \
kubectl and $LOGIN.conf: $(tail -n 1 <<<"$told"). Nothing was changed"
}

# list_images prints what kubeadm lists. Its warnings are on stderr.
list_images() {
  local kubeadm=$STATE/binaries/$VERSION/kubeadm told
  [ -x "$kubeadm" ] || kubeadm=$BIN/kubeadm
  "$kubeadm" config images list --config "$config" 2>/dev/null && return
  told=$("$kubeadm" config images list --config "$config" 2>&1) || true
  fail StepFailed "kubeadm $TARGET does not list its images: $(tail -n 1 <<<"$told"). Nothing was \
changed" >&2
}

# await_runtime waits for a runtime that is being restarted.
await_runtime() {
  local told
  for _ in 1 2 3 4 5; do
    told=$("${cri[@]}" images --quiet 2>&1 </dev/null) && return
    sleep 2
  done
  fail RuntimeUnavailable "the container runtime does not answer: $(answer "$told"). Nothing was \
changed. Fix: have crictl images succeed on the host"
}

# needed prints those of the images on stdin without which the step is not done.
needed() {
  if [ -z "$WORKER" ]; then
    cat
  elif "${cri[@]}" images 2>/dev/null </dev/null | grep '/kube-proxy ' >/dev/null; then
    grep '/kube-proxy:' || true
  fi
}

# import_archive imports the archive with the program of the runtime. It can be repeated.
import_archive() {
  local told way=(ctr --address "${endpoint#unix://}" --namespace k8s.io images import)
  [ -n "$endpoint" ] || way=(ctr --namespace k8s.io images import)
  [[ "$endpoint" != *crio* ]] || way=(podman load --quiet --input)
  [ "$(digest "$ARCHIVE")" = "$DIGEST" ] || {
    rm -f "$ARCHIVE"
    fail WrongDigest "$name on the host was damaged, and is fetched again"
  }
  command -v "${way[0]}" >/dev/null ||
    fail ToolMissing "the host has no ${way[0]} to import $name with. Nothing was changed"
  told=$("${way[@]}" "$ARCHIVE" 2>&1) && return
  [ "$(reason_of "$told")" != DiskFull ] ||
    fail DiskFull "no room to import $name: $(answer "$told")"
  fail ArchiveUnusable "$name cannot be imported: $(answer "$told"). Nothing was changed. Fix: \
make it with ctr --namespace k8s.io images export, or docker save, and put its digest into the manifest"
}

# look_for_room COUNT refuses a disk that so many images would fill: the kubelet would evict pods.
look_for_room() {
  local folder room need=$(($1 * 150))
  images_folder
  folder=$found
  [ -n "$folder" ] || return 0
  spare_in "$folder"
  room=$((spare_kb / 1024))
  [ $room -ge $need ] ||
    fail DiskFull "$folder has room for $room MiB above the $percent % below which the kubelet \
evicts pods, but $1 images need about $need MiB. Nothing was changed"
}

command -v crictl >/dev/null || skip 'the host has no crictl'
[ -n "$kubectl" ] || skip "the host has no kubectl to read kubeadm's configuration with"
await_runtime
read_config
all=$(list_images)
images=$(needed <<<"$all")
left=$(missing <<<"$images")
[ -z "$left" ] || look_for_room "$(wc -l <<<"$left")"
if [ -n "$left" ] && [ -n "$ARCHIVE" ]; then
  import_archive
  # The runtime hears of imported images from containerd's events.
  for _ in 1 2 3 4 5; do
    left=$(missing <<<"$images")
    [ -n "$left" ] || break
    sleep 1
  done
fi
while read -r image; do
  [ -n "$image" ] || continue
  echo "pulling $image"
  told=$(pull "$image" "${cri[@]}") ||
    refuse "$image" "$told" 'add it to an archive images.tar in the manifest of digests'
done <<<"$left"
if [ -n "$WORKER" ]; then
  missing <<<"$all" | { grep '/pause:' || true; } | while read -r image; do
    timeout 120 "${cri[@]}" pull "$image" </dev/null ||
      echo "$image was not pulled; that alone does no harm"
  done
fi
mark images "$images"
