# The facts of a host that kubeadm made. The API server is asked only for what is decided next: it
# may be the one that is away because it is upgraded.
source lib-facts.sh
source lib-kubectl.sh
source lib-pods.sh
source lib-etcd.sh
source lib-tag.sh
kubernetes=/etc/kubernetes
fact service kubelet
read -r found </proc/sys/kernel/hostname && fact host-name "$found"
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
kubelet_process
running=/proc/$kubelet_pid/exe
replaced=
if [ "$kubelet_pid" -gt 0 ] && [ ! "$running" -ef "$BIN/kubelet" ]; then
  replaced=yes
  fact running "$("$running" --version 2>/dev/null)"
fi
value_of server: $kubernetes/kubelet.conf
server=$found
# What the components are given counts until kubeadm begins. All facts together must fit into what is
# kept of the output.
if ! has_begun; then
  kubelet_command
  fact kubelet-command "${found:0:24576}"
  kubelet_names
  fact kubelet-units "$kubelet_unit"
  fact_of kubelet-defaults /etc/default/kubelet 12288
  fact_of kubelet-sysconfig /etc/sysconfig/kubelet 12288
  number=1000
  kubelet_others
  for file in ${others[@]+"${others[@]}"}; do
    [ "$file" != "$kubelet_config" ] && [ $number -lt 1002 ] || continue
    number=$((number + 1))
    contents "$file" 4096
    fact "kubelet-environment-$number" "$file
$found"
  done
  fact kubelet-config-path "$kubelet_config"
  kubelet_settings "$kubelet_config" 24577
  fact kubelet-config "$found"
  value_of staticPodPath: "$kubelet_config"
  found=${found%%[[:space:]]#*} found=${found//[\"\'[:space:]]/}
  static_pods "${found:-$kubernetes/manifests}"
  fact static-pods "$found"
  # kubeadm upgrade writes that file from a ConfigMap, which kubelets may read. It is judged only if
  # the minor changes.
  settings=/api/v1/namespaces/kube-system/configmaps/kubelet-config
  told=
  if [[ $installed == *" ${TARGET%.*}."* ]]; then
    :
  elif [ -n "$kubectl" ]; then
    told=$(kube kubelet get --raw $settings 2>/dev/null)
  elif command -v curl >/dev/null; then
    own=/var/lib/kubelet/pki/kubelet-client-current.pem
    told=$(curl --silent --fail --max-time 2 --cacert $kubernetes/pki/ca.crt --cert $own --key $own \
      "$server$settings")
  fi
  fact kubelet-map "${told:0:24577}"
  [ "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)" = tmpfs ] && fact cgroup-v1 yes
  fact kernel "$kernel"
  told=$(PATH="$PATH:/usr/local/bin" containerd --version 2>/dev/null)
  fact containerd "${told:0:1024}"
fi
images_folder
images=$found
ask_disks "$BIN" "$STATE" "$data" "$temporary" ${images:+"$images"}
room_facts "$images"
sizes "$BIN/kubeadm" "$BIN/kubelet" "$BIN/kubectl"
fact need-kb $total_kb
same_disk "$BIN" "$STATE" || { sizes "$BIN/kubelet"; fact keep-kb $total_kb; }
fact_of kubelet-flags /var/lib/kubelet/kubeadm-flags.env
apiserver=$kubernetes/manifests/kube-apiserver.yaml
# kubeadm moves manifests away and back. What it leaves alone tells a control plane for sure.
if [ -f $apiserver ] || [ -f $kubernetes/pki/apiserver.crt ]; then
  fact control-plane yes
  tag
  fact api-server-tag "${found//_/+}"
  [ -n "$kubectl" ] && fact kubectl yes
  contents $kubernetes/manifests/kube-scheduler.yaml
  [[ "${found,,}" == *_proxy* ]] && fact scheduler "$found"
  after --advertise-address= $apiserver
  address=$found
  case "$address" in *:*) address="[$address]" ;; esac
  after --secure-port= $apiserver
  [ -n "$address" ] && fact local-server "https://$address:${found:-6443}"
  if [ -n "$kubectl" ] && [ -z "$verb" ]; then
    told=$(kube admin --namespace kube-system get configmap kubeadm-config \
      --output 'jsonpath={.data.ClusterConfiguration}' 2>&1) ||
      fact cluster-problem "${told##*$'\n'}"
    fact cluster-configuration "${told:0:24577}"
    dir='' cluster=''
    while IFS= read -r line; do
      case "$line" in
        certificatesDir:*) dir=${line#*:} dir=${dir//[\"\']/} dir=${dir#"${dir%%[! ]*}"} ;;
        kubernetesVersion:*) cluster=${line#*:} ;;
      esac
    done <<<"$told"
    [ -n "$dir" ] && ! [ "$dir" -ef $kubernetes/pki ] && fact certificates-dir "$dir"
    fact cluster "$cluster"
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
  disk "$data"
  fact free-etcd-kb "$free_kb"
  # The step removes what is left of a snapshot that was cut short, and then looks for room itself.
  compgen -G "$data/windlass-snapshot.db*" >/dev/null ||
    compgen -G "$SNAPSHOTS/*.new*" >/dev/null || { snapshot_room; fact snapshot-kb $snapshot_kb; }
  disk "$temporary"
  fact free-copy-kb "$free_kb"
  same_disk "$temporary" "$STATE" && fact copy-beside-state yes
  # The step removes copies of earlier runs, and then looks for room itself.
  has_begun && [ -n "$(old_copies)" ] || { copy_room; fact copy-kb "$copy_kb"; }
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
  [ ! -f "$file" ] || fact_of "patched-$target" "$file" 65537
done <<<"$PATCHED"
if [ ! -d "$OP" ] && [ -n "$server" ] && command -v curl >/dev/null; then
  own=/var/lib/kubelet/pki/kubelet-client-current.pem
  login=()
  [ -f $own ] && login=(--cert "$own" --key "$own")
  value_of '"gitVersion":' <(curl --silent --max-time 2 --cacert $kubernetes/pki/ca.crt \
    ${login[@]+"${login[@]}"} "$server/version")
  fact api-server "$found"
fi
fact end yes
