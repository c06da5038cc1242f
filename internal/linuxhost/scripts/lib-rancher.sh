# How RKE2 or K3s is set up on the host, read as the program reads it. Scripts set unit to what
# node_unit prints before they ask for anything else.
unit=

# node_unit prints the unit that runs the node: that of a server or of an agent, or nothing. One
# that is not enabled is known by that it runs, that an upgrade has stopped it, or that it failed.
node_unit() {
  local server=$DISTRIBUTION name
  [ "$DISTRIBUTION" != rke2 ] || server=rke2-server
  for name in "$server" "$DISTRIBUTION-agent"; do
    if systemctl is-active --quiet "$name" || systemctl is-enabled --quiet "$name" 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  name=$(cat "$KEEP/put-back" "$KEEP/not-started" 2>/dev/null | awk 'NR == 1 {print $4}')
  [ -z "$name" ] || { echo "$name"; return; }
  for name in "$server" "$DISTRIBUTION-agent"; do
    if systemctl show --property ActiveState --value "$name" 2>/dev/null |
      grep -qx -e activating -e reloading -e deactivating -e failed; then
      echo "$name"
      return
    fi
  done
}

# argument FLAG SHORT prints the value of a flag on the command line of the service.
argument() {
  systemctl show --property ExecStart --value "$unit" 2>/dev/null | tr ' ' '\n' | tr -d "\"'" |
    awk -v long="--$1" -v short="-$2" '
      before == long || before == short { value = $0 }
      index($0, long "=") == 1 { value = substr($0, length(long) + 2) }
      { before = $0 }
      END { print value }'
}

# environment_files prints the files with variables of the service, as the installers of RKE2 and
# K3s name them.
environment_files() {
  [ -n "$unit" ] || return 0
  ls "/etc/default/$unit" "/etc/sysconfig/$unit" \
    "/usr/local/lib/systemd/system/$unit.env" "/etc/systemd/system/$unit.service.env" \
    2>/dev/null || true
}

# variable NAME prints the value of a variable in the environment of the service.
variable() {
  {
    systemctl show --property Environment --value "$unit" 2>/dev/null | tr ' ' '\n'
    environment_files | xargs -r -d '\n' cat
  } | awk -v name="${DISTRIBUTION^^}_$1=" '
    index($0, name) == 1 { value = substr($0, length(name) + 1) }
    END { print value }' | tr -d "\"'"
}

# config_path prints where the main configuration file is, or would be.
config_path() {
  local main
  main=$(variable CONFIG_FILE)
  main=${main:-$(argument config c)}
  echo "${main:-/etc/rancher/$DISTRIBUTION/config.yaml}"
}

# config_files prints the configuration files in the order in which they are read.
config_files() {
  local main
  main=$(config_path)
  [ ! -f "$main" ] || echo "$main"
  { find "$main.d" -maxdepth 1 ! -type d \( -iname '*.yaml' -o -iname '*.yml' \) 2>/dev/null || true; } |
    LC_ALL=C sort
}

# setting FLAG SHORT prints the value of a flag: that of the command line, else that of the last
# configuration file that has it.
setting() {
  local value
  value=$(argument "$1" "$2")
  [ -z "$value" ] || { echo "$value"; return; }
  config_files | xargs -r -d '\n' cat | awk -v long="$1" -v short="$2" '
    match($0, /^["\047]?[A-Za-z0-9-]+["\047]?\+? *:/) {
      key = substr($0, 1, RLENGTH)
      rest = substr($0, RLENGTH + 1)
      gsub(/[^A-Za-z0-9-]/, "", key)
      sub(/ #.*$/, "", rest)
      gsub(/["\047 \t\r]/, "", rest)
      if (key == long || key == short) value = rest
    }
    END { print value }'
}

# password TOKEN sets found to what a token proves: all of a short one, and the end of a long one, which
# begins with a hash of the authority and the name of a user.
password() {
  found=$1
  case "$found" in
    K10*::*) found=${found#*::} found=${found#*:} ;;
  esac
}

# written KEY sets found to what the last configuration file with a key has for it, without quotes. It sets found
# to nothing for what is no plain word: YAML has more forms than this reads.
written() {
  found=$(config_files | xargs -r -d '\n' cat | awk -v key="$1" '
    { sub(/\r$/, "") }
    match($0, /^["\047]?[A-Za-z0-9-]+["\047]? *:/) {
      name = substr($0, 1, RLENGTH)
      gsub(/[^A-Za-z0-9-]/, "", name)
      if (name == key) value = substr($0, RLENGTH + 1)
    }
    END { print value }')
  case "$found" in
    *\"*\"*) found=${found#*\"} found=${found%\"*} ;;
    *\'*\'*) found=${found#*\'} found=${found%\'*} ;;
    *) found=${found%%[[:space:]]#*} found=${found//[[:space:]]/} ;;
  esac
  case "$found" in *[!A-Za-z0-9:._+/=-]*) found= ;; esac
}

# other_token DATA prints the file with the token that this server has last been given or has rotated to, if
# its configuration has another one that is older: a newer one may be what another server rotated to. What is
# given on the command line has no time, and is not judged. No token is printed, nor given to a program.
other_token() {
  local told='' from file=$1/server/token
  [ -s "$file" ] && [ -z "$(argument token t)$(argument token-file token-file)" ] || return 0
  written token-file
  from=${found:-$(variable TOKEN_FILE)}
  if [ -n "$from" ]; then
    read -r told 2>/dev/null <"$from" || [ -n "$told" ] || return 0
  else
    written token
    told=${found:-$(variable TOKEN)}
  fi
  told=${told%$'\r'}
  [ -n "$told" ] || return 0
  while read -r from; do
    [ -z "$from" ] || [ ! "$from" -nt "$file" ] || return 0
  done <<<"$from
$(config_files)
$(environment_files)"
  password "$told"
  told=$found
  read -r found <"$file" || true
  password "$found"
  [ "$told" = "$found" ] || echo "$file"
}

# data_dir prints the data folder.
data_dir() {
  local folder
  folder=$(setting data-dir d)
  folder=${folder:-$(variable DATA_DIR)}
  echo "${folder:-/var/lib/rancher/$DISTRIBUTION}"
}
