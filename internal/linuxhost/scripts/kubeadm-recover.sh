# Undoes what a run of kubeadm that was cut short has done to files. kubeadm syncs nothing: after a
# power cut, files that it wrote may be empty or damaged.
source lib-job.sh
source lib-kubectl.sh
source lib-kubeadm.sh

put_all_back
await_control_plane
end_run
