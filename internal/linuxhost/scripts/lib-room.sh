# Room for archives of images, and for images: a disk that they fill makes the kubelet evict pods.
source lib-disk.sh
source lib-rancher.sh
source lib-runtime.sh


# margin prints how much of a disk must stay free, in percent: the kubelet evicts below that. It is
# what its configuration has, or the default of the kubelet, and of RKE2 and K3s.
margin() {
  [ "$DISTRIBUTION" = kubeadm ] || { echo 5; return; }
  kubelet_names
  awk -v most=0 '
    /^[^ \t#]/ { hard = /^evictionHard:/ }
    hard && /^[ \t"\047]*(nodefs|imagefs)[.]available["\047]*:.*%/ {
      gsub(/^[^:]*:[ \t"\047]*/, "")
      if ($0 + 0 > most) most = int($0 + 0)
    }
    END { print most ? most : 10 }' "$kubelet_config" 2>/dev/null || echo 10
}

# spare FREE SIZE prints what is free of a disk beside that, in KiB. It may be negative.
spare() { echo $((${1:-0} - ${2:-0} * ${percent:-$(margin)} / 100)); }

# spare_in FOLDER prints that for a folder.
spare_in() {
  local free size percent=''
  read -r free _ size < <(disk "$1")
  spare "$free" "$size"
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

# room_facts FOLDER prints the facts about what Windlass keeps, and about the folder of images,
# which may be unknown.
room_facts() {
  local percent free at size beside
  percent=$(margin)
  read -r free beside size < <(disk "$STATE")
  fact free-state-kb "$free"
  fact spare-state-kb "$(spare "$free" "$size")"
  [ -n "$1" ] || return 0
  read -r free at size < <(disk "$1")
  fact images-folder "$1"
  fact spare-images-kb "$(spare "$free" "$size")"
  [ "$at" != "$beside" ] || fact images-beside-state yes
}
