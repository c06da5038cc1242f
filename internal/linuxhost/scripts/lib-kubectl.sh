# kubectl is the one that waits to be installed, or else the host's; it is empty if there is none.
kubectl=
for candidate in "$BIN/kubectl" "$STATE/binaries/$VERSION/kubectl"; do
  [ -x "$candidate" ] && kubectl=$candidate
done

# kube NAME ARGUMENT... runs kubectl with the credentials in /etc/kubernetes/NAME.conf. It leaves no
# cache on the host.
kube() {
  local cache status=0
  cache=$(mktemp -d)
  "$kubectl" --kubeconfig "/etc/kubernetes/$1.conf" --request-timeout 3s --cache-dir "$cache" \
    "${@:2}" || status=$?
  rm -rf "$cache"
  return $status
}

# node_name prints the name of the host's node.
node_name() {
  local user
  user=$(kube kubelet auth whoami --output 'jsonpath={.status.userInfo.username}') &&
    echo "${user#system:node:}"
}
