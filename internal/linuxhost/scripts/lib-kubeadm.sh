# before holds what kubeadm changes, as it was before kubeadm's run. It is there while kubeadm runs,
# and afterwards if kubeadm was cut short, whatever the goal is by then.
before=$KEEP/before-kubeadm
kubelet_files=(/var/lib/kubelet/{config.yaml,kubeadm-flags.env,instance-config.yaml})
changed=0

# static_pods FOLDER prints the manifests of kubeadm's static pods below a copy of /, or below /
# itself.
static_pods() {
  local name
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    [ ! -f "$1/etc/kubernetes/manifests/$name.yaml" ] || echo "/etc/kubernetes/manifests/$name.yaml"
  done
}

# put_back FILE puts the copy in the place of a file, whole or not at all. The kubelet ignores files
# whose names begin with a dot.
put_back() {
  local new
  new=$(dirname "$1")/.windlass-new
  cp -p "$before$1" "$new"
  sync "$new"
  mv "$new" "$1"
  changed=$((changed + 1))
}

# put_back_kubelet undoes what kubeadm did to the kubelet's files. From v1.35 it moves the endpoint
# of the container runtime from one file to another, and its next run would find it in neither.
put_back_kubelet() {
  local file
  for file in "${kubelet_files[@]}"; do
    if [ -f "$before$file" ]; then
      cmp -s "$before$file" "$file" || put_back "$file"
    elif [ -f "$file" ]; then
      rm "$file"
      changed=$((changed + 1))
    fi
  done
}

# whole FILE tells whether kubeadm has written all of a manifest: it ends as the one before does.
whole() { [ -s "$1" ] && [ "$(tail -n 1 "$1" | tr -d '\0')" = "$(tail -n 1 "$before$1")" ]; }

# kept_secrets prints the certificates, keys and kubeconfigs that were copied.
kept_secrets() {
  find "$before/etc/kubernetes" -path '*/manifests' -prune -o -type f -print |
    while read -r file; do echo "${file#"$before"}"; done
}

# ends_whole FILE tells whether all of a certificate, a key or a kubeconfig is written: it ends as
# the one before does, or with the end of a PEM block. A kubeconfig has its key in base64.
ends_whole() {
  whole "$1" || {
    cat "$1"
    sed -n 's/^ *client-key-data: *//p' "$1" | base64 -d
  } 2>/dev/null | tail -n 1 | grep -q -e '^-----END .*-----$'
}

# is_renewed tells whether kubeadm has renewed the certificates of all static pods, and all files
# are whole. kubeadm writes the scheduler's manifest last, each one after the pod's certificates.
is_renewed() {
  local last=/etc/kubernetes/manifests/kube-scheduler.yaml
  [ -f "$before$last" ] && ! cmp -s "$before$last" "$last" && all_whole
}

# all_whole tells whether no manifest, certificate, key or kubeconfig is damaged.
all_whole() {
  local file
  while read -r file; do whole "$file" || return 1; done < <(static_pods "$before")
  while read -r file; do
    cmp -s "$before$file" "$file" || ends_whole "$file" || return 1
  done < <(kept_secrets)
}

# put_control_plane_back puts back manifests that are not whole, and all certificates, keys and
# kubeconfigs: any of them may be half written, and a certificate may not be that of its key. All of
# it is as valid as it was before the run.
put_control_plane_back() {
  local file
  # A manifest that is whole stays, because an older etcd may be unable to read what a newer one
  # wrote. Without the API server's manifest, kubeadm would take the machine for a worker.
  while read -r file; do
    whole "$file" || put_back "$file"
  done < <(static_pods "$before")
  while read -r file; do
    cmp -s "$before$file" "$file" || put_back "$file"
  done < <(kept_secrets)
}

# has_other_kubelet tells whether somebody has replaced the kubelet since the copy was made, probably
# to end the upgrade by hand. The steps replace it only when the copy is gone.
has_other_kubelet() {
  local kept now
  kept=$(cat "$before/kubelet.digest" 2>/dev/null) || true
  now=$(digest "$BIN/kubelet") || true
  [ -n "$kept" ] && [ -n "$now" ] && [ "$kept" != "$now" ]
}

# has_other_authority tells whether the host was made again since then. kubeadm upgrade writes none.
has_other_authority() {
  local authority=/etc/kubernetes/pki/ca.crt
  [ -f "$before$authority" ] && ! cmp -s "$before$authority" "$authority"
}

# is_renewed_since tells whether somebody has renewed certificates after kubeadm was cut short: all
# that differs from the copy was written more than a minute after kubeadm's end, and is whole.
is_renewed_since() {
  local any='' cut file
  cut=$(stat -c %Y "$before/alive" 2>/dev/null) || return 1
  while read -r file; do
    cmp -s "$before$file" "$file" && continue
    [ "$(stat -c %Y "$file" 2>/dev/null || echo 0)" -gt $((cut + 60)) ] || return 1
    any=yes
  done < <(kept_secrets)
  [ -n "$any" ] && all_whole
}

# may_stay tells whether certificates, keys and kubeconfigs are as good as those of the copy.
may_stay() {
  [ ! -f "$before/undo" ] || return 1
  if has_other_kubelet; then all_whole; else is_renewed || is_renewed_since; fi
}

# put_all_back undoes what a run of kubeadm that did not end well has done to files. Renewed
# certificates stay: kubeadm's next run finds the manifests that it wants, and renews nothing. Once
# it has begun to put them back, it continues after an interruption: half of that may look whole.
put_all_back() {
  if ! may_stay; then
    : >"$before/undo"
    sync "$before/undo" "$before"
    put_control_plane_back
  fi
  if has_other_kubelet; then
    echo 'the kubelet is another one than when kubeadm was cut short; its files stay'
  else
    put_back_kubelet
  fi
  restart_if_changed
}

# restart_if_changed restarts the kubelet if anything was put back. Static pods that could not start
# may wait for minutes in CrashLoopBackOff, which a kubelet forgets. What keeps it from starting
# shows in the next step. It prints one line: a failure shows the last three, and kubeadm's error
# has two.
restart_if_changed() {
  [ $changed -gt 0 ] || return 0
  echo "kubeadm did not end well; files put back as they were before: $changed"
  sync -f /etc/kubernetes /var/lib/kubelet
  systemctl restart kubelet || true
}

# end_run ends what began when the copy was made. The copy is gone at once: half of it would be a
# mixture of certificates.
end_run() {
  sync -f /etc/kubernetes /var/lib/kubelet
  mv "$before" "$before.old"
  sync "$KEEP"
  rm -rf "$before.old"
}

# await_control_plane waits for what kubeadm refuses to begin without, and what takes a while after
# a power cut or after a manifest has come back: the API server, and the machine's node Ready. It
# ends in any case, because kubeadm explains best what is wrong.
await_control_plane() {
  local node ready='jsonpath={.status.conditions[?(@.type=="Ready")].status}'
  [ -f /etc/kubernetes/manifests/kube-apiserver.yaml ] && [ -n "$kubectl" ] || return 0
  # An API server that does not answer takes the time of a request.
  local end=$((SECONDS + 300))
  while [ $SECONDS -lt $end ]; do
    node=$(node_name 2>/dev/null) && kube admin get --raw /readyz >/dev/null 2>&1 &&
      [ "$(kube admin get node "$node" --output "$ready" 2>/dev/null)" = True ] && return
    sleep 2
  done
  echo 'the API server does not answer, or the node of this machine is not Ready'
}
