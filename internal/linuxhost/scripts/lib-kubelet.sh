# What the unit of a kubelet names, whatever has set it up. All of it is read with as few programs as
# possible, because a host is looked at often.
kubelet_config=''

# kubelet_names sets kubelet_unit to the unit with its drop-ins, kubelet_environment to the files
# with variables that it names, and kubelet_config to the path of the kubelet's configuration file:
# as the unit and its variables have it, or else the kubelet that runs.
kubelet_names() {
  local file line text pid own=/var/lib/kubelet/config.yaml
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
    [ ! -f "$file" ] || text+=$'\n'$(head -c 12288 "$file")
  done <<<"$kubelet_unit"
  find_config "$text"
  if [ -z "$kubelet_config" ]; then
    pid=$(systemctl show --property MainPID --value kubelet 2>/dev/null) || true
    [ "${pid:-0}" = 0 ] || find_config "$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline")" || true
  fi
  if [ ! -f "$kubelet_config" ] || [ "$kubelet_config" -ef $own ]; then kubelet_config=$own; fi
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

# kubelet_others prints the configuration file and the files with variables that are not where
# packages and kubeadm have them.
kubelet_others() {
  local file
  kubelet_names
  for file in "$kubelet_config" ${kubelet_environment[@]+"${kubelet_environment[@]}"}; do
    case "$file" in
      /var/lib/kubelet/config.yaml | /var/lib/kubelet/kubeadm-flags.env) ;;
      /etc/default/kubelet | /etc/sysconfig/kubelet) ;;
      *) [ ! -f "$file" ] || echo "$file" ;;
    esac
  done
}

# kubelet_settings FILE prints a KubeletConfiguration without the header that may have a password.
# It prints ? if that stands where it is not found.
kubelet_settings() {
  local text
  text=$(awk '
    /^["\047]?staticPodURLHeader["\047]?[ \t]*:/ { hidden = 1; next }
    hidden && /^([ \t#]|$)/ { next }
    { hidden = 0; print }' "$1" 2>/dev/null)
  case "$text" in
    *staticPodURLHeader*) echo '?' ;;
    *) printf '%s\n' "$text" ;;
  esac
}
