# The static pods of the control plane are Ready as the restarted kubelet has them. It prints what is
# not. A kubelet of another minor computes other UIDs from the same manifests. It ends the pods of
# the kubelet before it, and starts them again; until then the API server answers, and shows the old
# pods as Ready. So the pods must have the UIDs that the kubelet has.
source lib-check.sh
source lib-running.sh
source lib-kubectl.sh
[ -f "$OP/restart" ] && marked restart "$(running)" && same || exit 1
api() { kube admin ${SERVER:+--server "$SERVER"} "$@" 2>&1; }
silent() {
  local last
  last=$(tail -n 1 <<<"$1")
  case "$last" in
    "Error from server"* | "error trying to reach service"*)
      echo "the API server of the host cannot ask the kubelet for its pods (nodes/proxy): $last" ;;
    *) echo "the API server of the host does not answer: $last" ;;
  esac
  exit 1
}
node=$(node_name 2>&1) || silent "$node"
kubelet=$(api get --raw "/api/v1/nodes/$node/proxy/pods") || silent "$kubelet"
pod='{.metadata.name} {.metadata.annotations.kubernetes\.io/config\.hash}'
pod+=' {.status.conditions[?(@.type=="Ready")].status}{"\n"}'
pods=$(api get pods --namespace kube-system --field-selector "spec.nodeName=$node" \
  --selector tier=control-plane --output "jsonpath={range .items[*]}$pod{end}") || silent "$pods"
# A node may have megabytes of pods. bash takes a time that is quadratic in the length to look for a
# text in them, so grep does.
uids=$(LC_ALL=C grep -ao '"name":"[^"]*","namespace":"kube-system","uid":"[^"]*"' <<<"$kubelet")
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
  [ -f "/etc/kubernetes/manifests/$name.yaml" ] || continue
  uid=$(grep -F "\"name\":\"$name-$node\"," <<<"$uids" | cut -d '"' -f 12)
  [ -n "$uid" ] && grep -qxF -e "$name-$node $uid True" <<<"$pods" && continue
  echo "the static pod $name-$node is not Ready since the kubelet was restarted"
  exit 1
done
