# running prints the digest of what the service is run with: its binary, and all that it reads when
# it starts. same looks at the running process: a kubelet that runs since before its binary was
# replaced has the file that is gone.
source lib-rancher.sh
source lib-kubelet.sh
if [ "$DISTRIBUTION" = kubeadm ]; then
  read_at_start() {
    digest "$BIN/kubelet"
    kubelet_others
    cat /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml \
      /var/lib/kubelet/kubeadm-flags.env /etc/kubernetes/kubelet.conf \
      /etc/default/kubelet /etc/sysconfig/kubelet /etc/systemd/system/kubelet.service \
      /etc/systemd/system/kubelet.service.d/*.conf \
      /usr/lib/systemd/system/kubelet.service.d/*.conf \
      ${others[@]+"${others[@]}"} 2>/dev/null || true
  }
  same() {
    pid=$(systemctl show --property MainPID --value kubelet) &&
      [ "/proc/$pid/exe" -ef "$BIN/kubelet" ]
  }
else
  read_at_start() {
    unit=$(node_unit)
    digest "$BIN/$DISTRIBUTION"
    { config_files; environment_files; } | xargs -r -d '\n' cat || true
  }
  same() { true; }
fi
running() {
  local sum
  sum=$(read_at_start | sha256sum)
  echo "${sum%% *}"
}
