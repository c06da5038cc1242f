# disk FOLDER prints what is free in a folder, in KiB, where its file system is mounted, and how
# large that is.
disk() {
  local folder=$1
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  df -Pk "$folder" 2>/dev/null | awk 'NR==2 {print $4, $6, $2}'
}
free() { local kb; read -r kb _ < <(disk "$1"); echo "$kb"; }
mount_of() { local at; read -r _ at _ < <(disk "$1"); echo "$at"; }
same_disk() { [ "$(mount_of "$1")" = "$(mount_of "$2")" ]; }
