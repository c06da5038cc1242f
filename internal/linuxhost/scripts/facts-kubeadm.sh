# The facts of a host that kubeadm made. The API server is asked only for what is decided next: it
# may be the one that is away because it is upgraded.
source lib-facts.sh
source lib-kubectl.sh
source lib-etcd.sh
source lib-tag.sh
kubernetes=/etc/kubernetes
fact service kubelet
# What kubeadm began counts for any goal; the verb, for the same version.
verb=
if has_begun; then
  fact begun yes
  read -r begun verb <"$KEEP/kubeadm"
  [ "$begun" = "$VERSION" ] || verb=
  fact verb "$verb"
fi
[ -d "$KEEP/before-kubeadm" ] && fact cut yes
installed=$("$BIN/kubelet" --version 2>/dev/null)
fact installed "$installed"
pid=$(systemctl show --property MainPID --value kubelet 2>/dev/null)
replaced=
if [ "${pid:-0}" -gt 0 ] && [ ! "/proc/$pid/exe" -ef "$BIN/kubelet" ]; then
  replaced=yes
  fact running "$("/proc/$pid/exe" --version 2>/dev/null)"
fi
# What the components are given counts until kubeadm begins. All facts together must fit into what is
# kept of the output.
if ! has_begun; then
  [ "${pid:-0}" -gt 0 ] &&
    fact kubelet-command "$(tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | head -c 24576)"
  kubelet_names
  fact kubelet-units "$kubelet_unit"
  fact kubelet-defaults "$(head -c 12288 /etc/default/kubelet 2>/dev/null)"
  fact kubelet-sysconfig "$(head -c 12288 /etc/sysconfig/kubelet 2>/dev/null)"
  number=1000
  while read -r file; do
    [ -n "$file" ] && [ "$file" != "$kubelet_config" ] && [ $number -lt 1002 ] || continue
    number=$((number + 1))
    fact "kubelet-environment-$number" "$file
$(head -c 4096 "$file")"
  done <<<"$(kubelet_others)"
  fact kubelet-config-path "$kubelet_config"
  fact kubelet-config "$(kubelet_settings "$kubelet_config" | head -c 24577)"
  # kubeadm upgrade writes that file from a ConfigMap, which kubelets may read. It is judged only if
  # the minor changes.
  settings=/api/v1/namespaces/kube-system/configmaps/kubelet-config
  told=
  if [[ $installed == *" ${TARGET%.*}."* ]]; then
    :
  elif [ -n "$kubectl" ]; then
    told=$(kube kubelet get --raw $settings 2>/dev/null | head -c 24577)
  elif command -v curl >/dev/null; then
    own=/var/lib/kubelet/pki/kubelet-client-current.pem
    told=$(curl --silent --fail --max-time 2 --cacert $kubernetes/pki/ca.crt --cert $own --key $own \
      "$(sed -n 's/^ *server: *//p' $kubernetes/kubelet.conf 2>/dev/null | head -n 1)$settings" |
      head -c 24577)
  fi
  fact kubelet-map "$told"
  [ "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)" = tmpfs ] && fact cgroup-v1 yes
  fact kernel "$(uname -r)"
  fact containerd "$(PATH="$PATH:/usr/local/bin" containerd --version 2>/dev/null | head -c 1024)"
fi
room_facts "$(images_folder)"
fact need-kb "$(sizes "$BIN/kubeadm" "$BIN/kubelet" "$BIN/kubectl")"
same_disk "$BIN" "$STATE" || fact keep-kb "$(sizes "$BIN/kubelet")"
fact kubelet-flags "$(cat /var/lib/kubelet/kubeadm-flags.env 2>/dev/null)"
server=$(sed -n 's/^ *server: *//p' $kubernetes/kubelet.conf 2>/dev/null | head -n 1)
apiserver=$kubernetes/manifests/kube-apiserver.yaml
# kubeadm moves manifests away and back. What it leaves alone tells a control plane for sure.
if [ -f $apiserver ] || [ -f $kubernetes/pki/apiserver.crt ]; then
  fact control-plane yes
  fact api-server-tag "$(tag | tr _ +)"
  [ -n "$kubectl" ] && fact kubectl yes
  scheduler=$kubernetes/manifests/kube-scheduler.yaml
  grep -qi _proxy $scheduler 2>/dev/null && fact scheduler "$(cat $scheduler)"
  address=$(sed -n 's/^.*--advertise-address=//p' $apiserver 2>/dev/null | head -n 1)
  port=$(sed -n 's/^.*--secure-port=//p' $apiserver 2>/dev/null | head -n 1)
  case "$address" in *:*) address="[$address]" ;; esac
  [ -n "$address" ] && fact local-server "https://$address:${port:-6443}"
  if [ -n "$kubectl" ] && [ -z "$verb" ]; then
    told=$(kube admin --namespace kube-system get configmap kubeadm-config \
      --output 'jsonpath={.data.ClusterConfiguration}' 2>&1) ||
      fact cluster-problem "$(tail -n 1 <<<"$told")"
    fact cluster-configuration "$(head -c 24577 <<<"$told")"
    dir=$(sed -n 's/^certificatesDir: *//p' <<<"$told" | tr -d "\"'")
    [ -n "$dir" ] && ! [ "$dir" -ef $kubernetes/pki ] && fact certificates-dir "$dir"
    fact cluster "$(sed -n 's/^kubernetesVersion: *//p' <<<"$told")"
  fi
fi
# signs NAME LEAF... prints the certificates of a CA whose key is not on the host, and those that it
# signs: kubeadm upgrade looks at them. All paths are below the folder of certificates.
signs() {
  local leaf pki=$kubernetes/pki
  [ -f "$pki/$1.crt" ] && [ ! -f "$pki/$1.key" ] || return 0
  signed=$((signed + 1))
  fact "external-$signed" "$1
$(certificates "$pki/$1.crt")"
  for leaf in "${@:2}"; do
    signed=$((signed + 1))
    if [ -f "$pki/$leaf.crt" ] && [ -f "$pki/$leaf.key" ]; then
      fact "external-$signed" "$leaf
$(certificates "$pki/$leaf.crt")"
    else
      fact "external-$signed" "$leaf
?"
    fi
  done
}
signed=1000
if [ -f $apiserver ] && ! has_begun; then
  signs ca apiserver apiserver-kubelet-client
  signs front-proxy-ca front-proxy-client
  [ ! -f $manifest ] ||
    signs etcd/ca apiserver-etcd-client etcd/server etcd/peer etcd/healthcheck-client
fi
if [ -f $manifest ]; then
  fact member yes
  fact etcd-data "$data"
  fact free-etcd-kb "$(free "$data")"
  # The step removes what is left of a snapshot that was cut short, and then looks for room itself.
  compgen -G "$data/windlass-snapshot.db*" >/dev/null ||
    compgen -G "$SNAPSHOTS/*.new*" >/dev/null || fact snapshot-kb "$(snapshot_kb)"
  fact free-copy-kb "$(free "$temporary")"
  same_disk "$temporary" "$STATE" && fact copy-beside-state yes
  # The step removes copies of earlier runs, and then looks for room itself.
  [ -n "$(old_copies)" ] || fact copy-kb "$(copy_kb)"
  if has_client; then
    fact etcd-client yes
    # kubeadm restarts the host's member itself. A cluster that lacks another member as well would
    # lose its quorum by that.
    [ -n "$verb" ] ||
      problem=$(client --command-timeout 3s endpoint --cluster health 2>&1) ||
      fact etcd-problem "$(grep 'is unhealthy' <<<"$problem" | head -n 1 | grep . || tail -n 1 <<<"$problem")"
  fi
fi
# The restart of a kubelet that was replaced may restart the member, too.
[ -n "$replaced" ] && [ -f $manifest ] && has_client && fact etcd-peer-problem "$(peer_problem)"
[ -z "$PATCHES_FOLDER" ] ||
  fact patches "$(find -H "$PATCHES_FOLDER" ! -type d \( -name '*.json' -o -name '*.yaml' \) \
    2>/dev/null | sort)"
# A file that is longer is refused.
while read -r target file; do
  [ ! -f "$file" ] || fact "patched-$target" "$(head -c 65537 "$file")"
done <<<"$PATCHED"
if [ ! -d "$OP" ] && [ -n "$server" ] && command -v curl >/dev/null; then
  own=/var/lib/kubelet/pki/kubelet-client-current.pem
  login=()
  [ -f $own ] && login=(--cert "$own" --key "$own")
  fact api-server "$(curl --silent --max-time 2 --cacert $kubernetes/pki/ca.crt \
    ${login[@]+"${login[@]}"} "$server/version" | sed -n 's/^ *"gitVersion": *//p')"
fi
fact end yes
