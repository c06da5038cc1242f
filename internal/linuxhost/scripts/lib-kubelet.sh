# What the unit of a kubelet names, whatever has set it up. All of it is read with as few programs as
# possible, because a host is looked at often.
source lib-read.sh
kubelet_config='' kubelet_pid=''

# kubelet_names sets kubelet_unit to the unit with its drop-ins, kubelet_environment to the files
# with variables that it names, and kubelet_config to the path of the kubelet's configuration file:
# as the unit and its variables have it, or else the kubelet that runs.
kubelet_names() {
  local file line text own=/var/lib/kubelet/config.yaml
  [ -z "$kubelet_config" ] || return 0
  kubelet_unit=$(systemctl cat kubelet 2>/dev/null) || true
  kubelet_unit=${kubelet_unit:0:24576} kubelet_environment=()
  text=$kubelet_unit
  while read -r line; do
    case "$line" in
      EnvironmentFile=/* | EnvironmentFile=-/*) file=${line#EnvironmentFile=} file=${file#-} ;;
      *) continue ;;
    esac
    kubelet_environment+=("$file")
    contents "$file" 12288
    text+=$'\n'$found
  done <<<"$kubelet_unit"
  find_config "$text"
  if [ -z "$kubelet_config" ]; then
    kubelet_command
    find_config "$found"
  fi
  if [ ! -f "$kubelet_config" ] || [ "$kubelet_config" -ef $own ]; then kubelet_config=$own; fi
}

# kubelet_process sets kubelet_pid to the process of the kubelet, or to 0.
kubelet_process() {
  [ -z "$kubelet_pid" ] || return 0
  kubelet_pid=$(systemctl show --property MainPID --value kubelet 2>/dev/null) || true
  kubelet_pid=${kubelet_pid:-0}
}

# kubelet_command sets found to the arguments of the kubelet that runs, one a line.
kubelet_command() {
  local word text=''
  kubelet_process
  found=
  [ -r "/proc/$kubelet_pid/cmdline" ] || return 0
  while IFS= read -r -d '' word || [ -n "$word" ]; do
    text+=$word$'\n'
  done 2>/dev/null <"/proc/$kubelet_pid/cmdline" || true
  found=$text
}

# find_config TEXT sets kubelet_config to the last value of --config in a text, if there is one.
find_config() {
  local line word before=''
  set -f
  while read -r line; do
    case "$line" in
      [#\;]*) continue ;;
      *config*) ;;
      *) [[ "$before" == *--config ]] || continue ;;
    esac
    for word in ${line//[\"\'\\]/ }; do
      case "$before" in --config | *=--config) kubelet_config=$word ;; esac
      case "$word" in --config=* | *=--config=*) kubelet_config=${word##*--config=} ;; esac
      before=$word
    done
  done <<<"$1"
  set +f
}

# kubelet_others sets others to the configuration file and the files with variables that are not
# where packages and kubeadm have them.
kubelet_others() {
  local file
  kubelet_names
  others=()
  for file in "$kubelet_config" ${kubelet_environment[@]+"${kubelet_environment[@]}"}; do
    case "$file" in
      /var/lib/kubelet/config.yaml | /var/lib/kubelet/kubeadm-flags.env) ;;
      /etc/default/kubelet | /etc/sysconfig/kubelet) ;;
      *) [ ! -f "$file" ] || others+=("$file") ;;
    esac
  done
}

# kubelet_settings FILE BYTES sets found to the beginning of a KubeletConfiguration without the header
# that may have a password. It is ? if that stands where it is not found.
kubelet_settings() {
  local LC_ALL=C
  contents "$1" "$2"
  [[ "$found" == *staticPodURLHeader* ]] || return 0
  found=$(awk '
    /^["\047]?staticPodURLHeader["\047]?[ \t]*:/ { hidden = 1; next }
    hidden && /^([ \t#]|$)/ { next }
    { hidden = 0; print }' "$1" 2>/dev/null) || true
  case "$found" in
    *staticPodURLHeader*) found='?' ;;
    *) found=${found:0:$2} ;;
  esac
}
