# Room for archives of images, and for images: a disk that they fill makes the kubelet evict pods.
source lib-disk.sh
source lib-rancher.sh
source lib-runtime.sh

# margin prints how much of a disk must stay free, in percent: the kubelet evicts below that. It is
# what its configuration has, or the default of the kubelet, and of RKE2 and K3s.
margin() {
  local percent=5
  if [ "$DISTRIBUTION" = kubeadm ]; then
    percent=$(sed -n '/^evictionHard:/,/^[a-zA-Z]*: *$/p' "$(kubelet_config)" 2>/dev/null |
      tr -d "\"'" | sed -n 's/^  *\(nodefs\|imagefs\)\.available: *\([0-9]*\).*%.*$/\2/p' |
      sort -n | tail -n 1)
  fi
  echo "${percent:-10}"
}

# spare FOLDER prints what is free in a folder beside that, in KiB. It may be negative.
spare() {
  local free size
  read -r free _ size < <(disk "$1")
  echo $((${free:-0} - ${size:-0} * $(margin) / 100))
}

# images_folder prints where the container runtime keeps images; nothing if that is unknown.
images_folder() {
  local folder=/var/lib/containerd
  if [ "$DISTRIBUTION" != kubeadm ]; then
    unit=$(node_unit)
    data_dir
    return
  fi
  [[ "$(runtime_endpoint)" != *crio* ]] || folder=/var/lib/containers
  [ ! -d $folder ] || echo $folder
}
