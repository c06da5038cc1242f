# The member of etcd beside the kubelet of a host that kubeadm made, if there is one.
source lib-read.sh
manifest=/etc/kubernetes/manifests/etcd.yaml
after --listen-client-urls= $manifest
endpoint=${found%%,*}
# A certificate is for addresses to which a client can connect.
endpoint=${endpoint/'//0.0.0.0:'/'//127.0.0.1:'}
endpoint=${endpoint/'//[::]:'/'//[::1]:'}
after --data-dir= $manifest
data=${found:-/var/lib/etcd}

# has_client reports whether there is an etcdctl, or crictl for the one in the member's container.
has_client() {
  local PATH="$PATH:/usr/local/sbin:/usr/local/bin"
  type -P etcdctl >/dev/null || type -P crictl >/dev/null
}

# snapshot_room sets snapshot_kb to the room for a snapshot in KiB: more than the database, which
# grows meanwhile.
snapshot_room() {
  local size=0 db=$data/member/snap/db
  [ ! -f "$db" ] || size=$(stat -c %s "$db" 2>/dev/null) || true
  # shellcheck disable=SC2034 # Those who call it read it.
  snapshot_kb=$((${size:-0} * 6 / 5 / 1024))
}

# kubeadm copies the folder of etcd's data before it restarts the member, in each run, and keeps the
# copies, also when it has succeeded.
temporary=/etc/kubernetes/tmp
# images_room sets images_kb to the room in KiB that images take which kubeadm pulls before that, if
# they are on the disk of the copy: those of a control plane take less than 1 GiB, packed and
# unpacked. The container runtime is asked last, because each look at the host asks it again.
images_room() {
  local folder PATH="$PATH:/usr/local/sbin:/usr/local/bin"
  images_kb=0
  for folder in /var/lib/containerd /var/lib/containers; do
    [ -d $folder ] && same_disk $folder "$temporary" || continue
    crictl images 2>/dev/null | grep "/kube-scheduler  *${TARGET/+/_} " >/dev/null ||
      images_kb=1048576
    return 0
  done
}
# copy_room sets copy_kb to the room for a copy in KiB, beside images; to nothing if it is unknown.
copy_room() {
  copy_kb=$(du -skD "$data" 2>/dev/null) || true
  copy_kb=${copy_kb%%[!0-9]*}
  [ -n "$copy_kb" ] || return 0
  images_room
  copy_kb=$((copy_kb * 6 / 5 + images_kb))
}
# old_copies prints those of earlier runs of an upgrade that is not done.
old_copies() {
  ! has_begun || find "$temporary" -maxdepth 1 -name 'kubeadm-backup-etcd-*' \
    -newer "$KEEP/kubeadm" 2>/dev/null
}

# has_changed reports whether the manifests of static pods, or their folder, have changed since the
# snapshot was recorded, in KEEP and, if it is there, for the operation. kubeadm changes nothing of
# etcd before them. A change is missed if the clock was set back between the two.
has_changed() {
  local since=(-newer "$KEEP/etcd-snapshot")
  [ ! -f "$OP/etcd-snapshot" ] || since+=(-newer "$OP/etcd-snapshot")
  [ -n "$(find -H /etc/kubernetes/manifests "${since[@]}" 2>/dev/null)" ]
}

# is_healthy reports whether the member answers.
is_healthy() { client --command-timeout 3s endpoint health >/dev/null 2>&1; }

# client ARGUMENT... runs etcdctl against the member. It is that of the host, or of the container,
# which has the folder of etcd's data at the same path.
client() {
  local login member pki=/etc/kubernetes/pki/etcd PATH="$PATH:/usr/local/sbin:/usr/local/bin"
  login=(--endpoints "${endpoint:-https://127.0.0.1:2379}" --cacert "$pki/ca.crt"
    --cert "$pki/healthcheck-client.crt" --key "$pki/healthcheck-client.key")
  if command -v etcdctl >/dev/null; then
    ETCDCTL_API=3 etcdctl "${login[@]}" "$@"
  else
    member=$(crictl ps --quiet --state Running --name '^etcd$' | head -n 1)
    [ -n "$member" ] || { echo 'there is no running container etcd on the host'; return 1; }
    crictl exec "$member" etcdctl "${login[@]}" "$@"
  fi
}

# peer_problem prints why a restart of the member could cost the quorum: which other member is not
# healthy, or that the member finds no others. A member that does not answer has nothing to lose.
peer_problem() {
  local told own
  told=$(client --command-timeout 3s endpoint --cluster health 2>&1) && return
  own=$(sed -n 's/^.*--advertise-client-urls=\([^,]*\).*$/\1/p' $manifest | head -n 1)
  if grep -q 'is unhealthy' <<<"$told"; then
    grep 'is unhealthy' <<<"$told" | grep -vF -e "${own:-no URL} is unhealthy" | head -n 1
  elif client --command-timeout 3s endpoint status >/dev/null 2>&1; then
    tail -n 1 <<<"$told"
  fi
}
