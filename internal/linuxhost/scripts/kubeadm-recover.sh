# Undoes what a run of kubeadm that was cut short has done to files. kubeadm syncs nothing: after a
# power cut, files that it wrote may be empty or damaged.
source lib-job.sh
source lib-kubectl.sh
source lib-kubeadm.sh

if has_moved_on; then
  echo 'this host has another kubelet or authority since kubeadm was cut short; nothing is put back'
else
  put_all_back
fi
await_control_plane
end_run
