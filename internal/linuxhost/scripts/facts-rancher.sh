# The facts of a host that runs RKE2 or K3s. An agent reaches the API server through a balancer of
# its own, whose address is in the kubeconfig of its kubelet. The port 6444 of RKE2 is another one:
# the supervisor's.
source lib-facts.sh
source lib-components.sh
fact installed "$("$BIN/$DISTRIBUTION" --version 2>/dev/null | head -n 1)"
sizes "$BIN/$DISTRIBUTION"
fact need-kb $total_kb
unit=$(node_unit)
data=$(data_dir)
ask_disks "$BIN" "$STATE" "$data"
same_disk "$BIN" "$STATE" || fact keep-kb $total_kb
fact service "$unit"
room_facts "$data"
fact archives "$(cd "$data/agent/images" 2>/dev/null &&
  ls -d {k3s-airgap,rke2}-images*.tar* 2>/dev/null | paste -sd ' ')"
[ ! -s "/etc/rancher/$DISTRIBUTION/registries.yaml" ] || fact registries yes
value_of server: "$data/agent/kubelet.kubeconfig"
server=$found
if [ -n "$unit" ] && [ "$unit" != "$DISTRIBUTION-agent" ]; then
  fact control-plane yes
  [ -d "$data/server/db/etcd" ] && fact member yes
  fact other-token "$(other_token "$data")"
elif [ ! -d "$OP" ] && [ -n "$unit" ] && [ -n "$server" ] && command -v curl >/dev/null; then
  value_of '"gitVersion":' <(curl --silent --max-time 2 --cacert "$data/agent/server-ca.crt" \
    --cert "$data/agent/client-kubelet.crt" --key "$data/agent/client-kubelet.key" \
    "$server/version")
  fact api-server "$found"
fi
[ "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)" = tmpfs ] && fact cgroup-v1 yes
component_facts "$data"
fact end yes
