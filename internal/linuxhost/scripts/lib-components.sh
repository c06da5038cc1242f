# What RKE2 or K3s is told to give to components of Kubernetes.
source lib-rancher.sh
source lib-kubelet.sh
keys='((kubelet|kube-(apiserver|controller|controller-manager|scheduler|proxy))-arg|profile|disable'
keys+='|flannel-backend|ingress-controller|system-default-registry|private-registry)'

# of_components prints the keys of a configuration file whose values are arguments for components, or
# decide about known risks, with these values: tokens and passwords stay on the host. It prints a line with ? if the file is
# in a form in which it does not find keys, such as flow style.
of_components() {
  awk -v keys="^$keys\$" '
    { sub(/\r$/, "") }
    /^[ \t]*(#|$)/ { next }
    /^%/ && !known { next }
    /^---[ \t]*(#.*)?$/ && !known { next }
    /^(---|\.\.\.)([ \t]|$)/ { if (!known) print "?"; exit }
    { match($0, /^ */) }
    !known { root = RLENGTH; known = 1 }
    RLENGTH == root && substr($0, root + 1) !~ /^(- |-$|[]}])/ {
      if (!match($0, /^ *["\047]?[A-Za-z0-9._-]+\+?["\047]?[ \t]*:([ \t]|$)/)) { print "?"; exit }
      key = substr($0, 1, RLENGTH)
      gsub(/[^A-Za-z0-9._-]/, "", key)
      wanted = key ~ keys
      inside = 1
    }
    !inside { print "?"; exit }
    wanted { print }' "$1"
}

# component_flags prints the arguments for components that the command line of the service has, or a
# variable of it: KEY=VALUE a line.
component_flags() {
  {
    systemctl show --property ExecStart --value "$unit"
    systemctl show --property Environment --value "$unit"
    environment_files | xargs -r -d '\n' sed '/^[ \t]*[#;]/d'
  } 2>/dev/null | tr ' \t' '\n' | tr -d "\"'\\\\" | awk -v flags="(^|=)--?$keys(=|\$)" '
    $0 == "" { next }
    before != "" { print before "=" $0; before = ""; next }
    match($0, flags) {
      flag = substr($0, RSTART, RLENGTH)
      gsub(/(^=?--?|=$)/, "", flag)
      if (RSTART + RLENGTH > length($0) && $0 !~ /=$/) before = flag
      else print flag "=" substr($0, RSTART + RLENGTH)
    }'
}

# kubelet_files DATA prints the drop-ins of the kubelet that people write. RKE2 and K3s write their
# own one again whenever they start.
kubelet_files() {
  { find "$1/agent/etc/kubelet.conf.d" -maxdepth 1 ! -type d -name '*.conf' \
    ! -name '00-*-defaults.conf' 2>/dev/null || true; } | LC_ALL=C sort
}

# component_facts DATA prints all of that. All facts together must fit into what is kept of the
# output, so there is a file for which no room is left, and nobody knows its content.
component_facts() {
  local left=65536 number=1000 file data=$1
  tell() {
    left=$((left - ${#2})) number=$((number + 1))
    [ $left -ge 0 ] || set -- "$1" '?'
    fact "$1-$number" "$file
$2"
  }
  fact config-path "$(config_path)"
  while read -r file; do
    [ -z "$file" ] || tell config-file "$(of_components "$file" | head -c 65537)"
  done <<<"$(config_files)"
  while read -r file; do
    [ -n "$file" ] || continue
    kubelet_settings "$file" 65537
    tell kubelet-file "$found"
  done <<<"$(kubelet_files "$data")"
  fact component-flags "$(component_flags | head -c 24576)"
}
