# The kubelet talks to the API server of its own machine.
source lib-check.sh
case "$(sed -n 's/^ *server: *//p' /etc/kubernetes/kubelet.conf | head -n 1)" in
  "$SERVER" | https://127.0.0.1:* | https://localhost:* | 'https://[::1]:'*) exit 0 ;;
esac
exit 1
