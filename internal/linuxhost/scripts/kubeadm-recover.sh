# Undoes what a run of kubeadm that was cut short has done to files. kubeadm syncs nothing: after a
# power cut, files that it wrote may be empty or damaged.
source lib-job.sh
source lib-kubectl.sh
source lib-kubeadm.sh

if has_other_authority; then
  echo 'the cluster has another CA than when kubeadm was cut short; nothing is put back'
else
  put_all_back
fi
await_control_plane
end_run
