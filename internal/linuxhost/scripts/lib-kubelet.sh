# What the unit of a kubelet that kubeadm or another tool has set up names.

# kubelet_environment prints the files with variables of the unit.
kubelet_environment() {
  systemctl cat kubelet 2>/dev/null | sed -n 's/^[ \t]*EnvironmentFile=-\{0,1\}\//\//p' |
    awk '!seen[$0]++'
}

# kubelet_config prints the path of the kubelet's configuration file, as the unit and its variables
# have it, or else the kubelet that runs.
kubelet_config() {
  local found own=/var/lib/kubelet/config.yaml
  found=$({
    systemctl cat kubelet
    kubelet_environment | xargs -r -d '\n' cat
  } 2>/dev/null | sed '/^[ \t]*[#;]/d' | config_in)
  [ -n "$found" ] || found=$(running_words | config_in)
  if [ ! -f "$found" ] || [ "$found" -ef $own ]; then found=$own; fi
  echo "$found"
}

# config_in prints the value of the last --config among words.
config_in() {
  tr "\"'\\\\ \t" '\n' | awk '
    $0 == "" { next }
    match($0, /(^|=)--config=/) { value = substr($0, RSTART + RLENGTH) }
    before ~ /(^|=)--config$/ { value = $0 }
    { before = $0 }
    END { print value }'
}

# running_words prints the command line of the kubelet that runs, one word a line.
running_words() {
  local pid
  pid=$(systemctl show --property MainPID --value kubelet 2>/dev/null) || true
  [ "${pid:-0}" = 0 ] || tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" || true
}

# kubelet_settings FILE prints a KubeletConfiguration without the header that may have a password. It
# prints ? if that stands where it is not found.
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
