# Room for archives of images, and for images: a disk that they fill makes the kubelet evict pods.
source lib-disk.sh
source lib-rancher.sh
source lib-runtime.sh
percent=

# margin sets percent to how much of a disk must stay free: the kubelet evicts below that. It is what
# its configuration has, or the default of the kubelet, and of RKE2 and K3s.
margin() {
  [ -z "$percent" ] || return 0
  [ "$DISTRIBUTION" = kubeadm ] || { percent=5; return; }
  kubelet_names
  contents "$kubelet_config"
  percent=10
  [[ "$found" != *evictionHard* ]] || percent=$(awk -v most=0 '
    /^[^ \t#]/ { hard = /^evictionHard:/ }
    hard && /^[ \t"\047]*(nodefs|imagefs)[.]available["\047]*:.*%/ {
      gsub(/^[^:]*:[ \t"\047]*/, "")
      if ($0 + 0 > most) most = int($0 + 0)
    }
    END { print most ? most : 10 }' "$kubelet_config" 2>/dev/null) || percent=10
}

# spare_in FOLDER sets spare_kb to what is free of a folder's disk beside that, in KiB. It may be
# negative.
spare_in() {
  margin
  disk "$1"
  spare_kb=$((${free_kb:-0} - ${size_kb:-0} * percent / 100))
}

# images_folder sets found to where the container runtime keeps images; to nothing if that is
# unknown.
images_folder() {
  local folder=/var/lib/containerd
  if [ "$DISTRIBUTION" != kubeadm ]; then
    unit=$(node_unit)
    found=$(data_dir)
    return
  fi
  runtime_endpoint
  [[ "$found" != *crio* ]] || folder=/var/lib/containers
  found=
  [ ! -d $folder ] || found=$folder
}

# room_facts FOLDER prints the facts about the folder of binaries, what Windlass keeps, and the folder
# of images, which may be unknown.
room_facts() {
  local beside
  disk "$BIN"
  fact free-kb "$free_kb"
  spare_in "$STATE"
  beside=$mount
  fact free-state-kb "$free_kb"
  fact spare-state-kb "$spare_kb"
  [ -n "$1" ] || return 0
  spare_in "$1"
  fact images-folder "$1"
  fact spare-images-kb "$spare_kb"
  [ "$mount" != "$beside" ] || fact images-beside-state yes
}
