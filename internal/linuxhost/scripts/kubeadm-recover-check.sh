# No run of kubeadm was cut short.
source lib-check.sh
[ ! -d "$KEEP/before-kubeadm" ]
