# What df told about folders that were asked for together.
declare -A disks=()

# existing FOLDER sets existing to the folder, or else to the first one above it that is there.
existing() {
  existing=$1
  while [ ! -d "$existing" ]; do
    case "$existing" in
      */*) existing=${existing%/*} existing=${existing:-/} ;;
      *) existing=. ;;
    esac
  done
}

# ask_disks FOLDER... asks for folders at once, for disk. The answers do not change any more.
ask_disks() {
  local folder i rows folders=()
  for folder; do existing "$folder"; folders+=("$existing"); done
  mapfile -t rows < <(df -Pk "${folders[@]}" 2>/dev/null)
  [ ${#rows[@]} = $((${#folders[@]} + 1)) ] || return 0
  for i in "${!folders[@]}"; do disks[${folders[i]}]=${rows[i + 1]}; done
}

# disk FOLDER sets free_kb to what is free in a folder, in KiB, size_kb to how large its file system
# is, and mount to where that is mounted. They are empty if nobody knows.
disk() {
  local row
  existing "$1"
  row=${disks[$existing]-}
  [ -n "$row" ] || { read -r row; read -r row; } < <(df -Pk "$existing" 2>/dev/null) || true
  # shellcheck disable=SC2034 # Those who call it read them.
  read -r _ size_kb _ free_kb _ mount _ <<<"$row"
}

# same_disk FOLDER OTHER tells whether both are on one disk.
same_disk() {
  local at
  disk "$1"
  at=$mount
  disk "$2"
  [ "$at" = "$mount" ]
}
