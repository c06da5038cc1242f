source lib-kubelet.sh
# runtime_endpoint prints the endpoint of the container runtime that the kubelet has, or nothing.
runtime_endpoint() {
  {
    endpoint_in /var/lib/kubelet/{kubeadm-flags.env,instance-config.yaml,config.yaml} || {
      # shellcheck disable=SC2046 # Their names have no blanks, as systemd has them.
      endpoint_in $(kubelet_others)
    }
  } | tr -d "\"'"
}

# endpoint_in FILE... prints the first one that files have.
endpoint_in() {
  local found=''
  [ $# -eq 0 ] || found=$(sed -n -e 's/^.*--container-runtime-endpoint=\([^ "]*\).*$/\1/p' \
    -e 's/^containerRuntimeEndpoint: *//p' "$@" 2>/dev/null | grep -m 1 .) || true
  [ -n "$found" ] && echo "$found"
}
