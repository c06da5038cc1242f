source lib-kubelet.sh
# runtime_endpoint prints the endpoint of the container runtime that the kubelet has, or nothing.
runtime_endpoint() {
  {
    { echo /var/lib/kubelet/kubeadm-flags.env; kubelet_environment; } | xargs -d '\n' cat |
      sed -n 's/^.*--container-runtime-endpoint=\([^ "]*\).*$/\1/p'
    sed -n 's/^containerRuntimeEndpoint: *//p' /var/lib/kubelet/instance-config.yaml "$(kubelet_config)"
  } 2>/dev/null | tr -d "\"'" | grep . | head -n 1
}
