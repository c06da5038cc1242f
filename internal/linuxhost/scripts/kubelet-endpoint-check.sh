# The kubelet talks to the API server of its own machine.
source lib-check.sh
source lib-read.sh
value_of server: /etc/kubernetes/kubelet.conf
case "$found" in
  "$SERVER" | https://127.0.0.1:* | https://localhost:* | 'https://[::1]:'*) exit 0 ;;
esac
exit 1
