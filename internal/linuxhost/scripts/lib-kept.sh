# kept holds what the node was started with before the upgrade: its program, and the files that it
# reads when it starts. Those of RKE2 and K3s may have the cluster's token: only root can read the
# copy. The file created has the paths of files that the upgrade creates. The copy is there until
# the upgrade is done, whatever the goal is by then. A server of RKE2 or K3s has none if it gets
# another program: that is the control plane, too, and an older one may be unable to read what a
# newer one wrote.
source lib-keep.sh
source lib-rancher.sh
source lib-kubelet.sh
kept=$KEEP/node
program=$DISTRIBUTION
[ "$DISTRIBUTION" != kubeadm ] || program=kubelet

# start_files prints those files of the host.
start_files() {
  if [ "$DISTRIBUTION" = kubeadm ]; then
    {
      ls /var/lib/kubelet/{config.yaml,instance-config.yaml,kubeadm-flags.env} \
        /etc/default/kubelet /etc/sysconfig/kubelet /etc/systemd/system/kubelet.service \
        /etc/systemd/system/kubelet.service.d/*.conf || true
      kubelet_others
      [ ${#others[@]} = 0 ] || printf '%s\n' "${others[@]}"
    } 2>/dev/null
  else
    unit=$(node_unit)
    config_files
    environment_files
  fi
}

# changed TEST... prints those of these files, and of the program, for which a test of find holds.
changed() {
  { start_files; echo "$BIN/$program"; } | while read -r file; do
    find -L "$file" -maxdepth 0 "$@"
  done
}

# changed_since FILE prints what was changed after a file was written, and what is gone since the
# copy was made.
changed_since() {
  changed -newercm "$1"
  find "$kept/files" -type f -printf '/%P\n' | while read -r file; do
    [ -e "$file" ] || echo "$file"
  done
}

# is_in_use tells whether the service runs with what is on the host now: since a minute, and since
# the last change of its program and files.
is_in_use() {
  local service=kubelet pid age
  [ "$DISTRIBUTION" = kubeadm ] || service=$(node_unit)
  systemctl is-active --quiet "$service" &&
    pid=$(systemctl show --property MainPID --value "$service") &&
    age=$(ps -o etimes= -p "$pid" 2>/dev/null) && [ "$age" -ge 60 ] || return 1
  [ -z "$(changed -newerct "@$(($(date +%s) - age))")" ]
}

# is_repaired tells whether somebody has changed the configuration since the copy was made, while
# the program is still that of the copy.
is_repaired() {
  [ -d "$kept" ] && cmp -s "$kept/program" "$BIN/$program" &&
    [ -n "$(changed_since "$kept/digest")" ]
}

# keep_node copies them before the first change. A copy of the same operation, or of one that
# kubeadm has begun, is from before that change. So may be one of another operation, which the host
# did not survive: it stays until the service is seen to run with what is there. What is copied then
# ends what is held.
keep_node() {
  local told
  if { [ "$(cat "$kept/operation" 2>/dev/null)" = "$OP" ] || has_begun; } && ! is_repaired; then
    return
  fi
  [ ! -f "$OP/unkept" ] || return 0
  told=$("$BIN/$program" --version 2>/dev/null | head -n 1) || true
  # By the next step, the program may be the new one.
  if [ "$DISTRIBUTION" != kubeadm ] && [ "$(node_unit)" != "$DISTRIBUTION-agent" ] &&
    [[ " $told " != *[!0-9a-z.+-]"$TARGET"[!0-9a-z.+-]* ]]; then
    rm -rf "$kept"
    mark unkept yes
    return 0
  fi
  [ -n "$told" ] || return 0
  if [ -d "$kept" ]; then
    is_in_use || return 0
    rm -f "$KEEP"/{not-started,put-back}
  fi
  rm -rf "$kept" "$kept.new"
  (umask 077; mkdir "$kept.new" "$kept.new/files")
  ln -L "$BIN/$program" "$kept.new/program" 2>/dev/null || cp -p "$BIN/$program" "$kept.new/program"
  digest "$kept.new/program" >"$kept.new/digest"
  printf '%s\n' "$told" >"$kept.new/version"
  printf %s "$OP" >"$kept.new/operation"
  start_files | (cd / && sed 's,^/,,' | xargs -r -d '\n' cp -p --parents -t "$kept.new/files")
  sync -f "$kept.new"
  mv -T "$kept.new" "$kept"
  sync "$KEEP"
}

# is_kept tells whether the copy is whole.
is_kept() {
  [ -f "$kept/digest" ] && [ "$(digest "$kept/program")" = "$(<"$kept/digest")" ]
}

# replace FILE PATH puts a copy in the place of a file, whole or not at all.
replace() {
  local new
  new=$(dirname "$2")/.windlass-new
  mkdir -p "$(dirname "$2")"
  rm -f "$new"
  cp -p "$1" "$new"
  sync "$new"
  mv -T "$new" "$2"
  sync "$(dirname "$2")"
}

# note_created FILE notes that the upgrade is about to create a file.
note_created() {
  [ -d "$kept" ] && ! grep -qsxF -e "$1" "$kept/created" || return 0
  printf '%s\n' "$1" >>"$kept/created"
  sync "$kept/created" "$kept"
}

# not_back prints what differs from the copy: files that the upgrade has created, those that it has
# changed, and the program, which comes last.
not_back() {
  local file
  start_files | while read -r file; do
    [ -e "$kept/files$file" ] || ! grep -qsxF -e "$file" "$kept/created" || echo "$file"
  done
  find "$kept/files" -type f -printf '/%P\n' | while read -r file; do
    cmp -s "$kept/files$file" "$file" || echo "$file"
  done
  cmp -s "$kept/program" "$BIN/$program" || echo "$BIN/$program"
}

# put_node_back undoes the changes. It can be repeated. Files that others have created since stay.
put_node_back() {
  local file
  not_back | while read -r file; do
    case "$file" in
      "$BIN/$program") replace "$kept/program" "$file" ;;
      *) if [ -e "$kept/files$file" ]; then replace "$kept/files$file" "$file"; else rm -f "$file"; fi ;;
    esac
  done
}
