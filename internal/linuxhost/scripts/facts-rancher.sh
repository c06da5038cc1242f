# The facts of a host that runs RKE2 or K3s. An agent reaches the servers through its own balancer.
source lib-facts.sh
source lib-rancher.sh
fact installed "$("$BIN/$DISTRIBUTION" --version 2>/dev/null | head -n 1)"
fact need-kb "$(sizes "$BIN/$DISTRIBUTION")"
server_unit=$DISTRIBUTION
[ "$DISTRIBUTION" != rke2 ] || server_unit=rke2-server
service=
for unit in "$server_unit" "$DISTRIBUTION-agent"; do
  if systemctl is-active --quiet "$unit" || systemctl is-enabled --quiet "$unit" 2>/dev/null; then
    service=$unit
    break
  fi
done
fact service "$service"
if [ "$service" = "$server_unit" ]; then
  fact control-plane yes
  [ -d "$data/server/db/etcd" ] && fact member yes
elif [ ! -d "$OP" ] && [ -n "$service" ] && command -v curl >/dev/null; then
  fact api-server "$(curl --silent --max-time 2 --cacert "$data/agent/server-ca.crt" \
    --cert "$data/agent/client-kubelet.crt" --key "$data/agent/client-kubelet.key" \
    https://127.0.0.1:6444/version | sed -n 's/^ *"gitVersion": *//p')"
fi
fact end yes
