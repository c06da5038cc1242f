# Undoes what a run of kubeadm that was cut short has done to files. kubeadm syncs nothing: after a
# power cut files may be empty, or damaged, and a certificate may not be that of its key. All of it
# is as valid as it was before the run.
source lib-job.sh
source lib-kubectl.sh
source lib-kubeadm.sh

# whole FILE tells whether kubeadm has written all of a manifest: it ends as the one before does.
whole() { [ -s "$1" ] && [ "$(tail -n 1 "$1" | tr -d '\0')" = "$(tail -n 1 "$before$1")" ]; }

# A manifest that is whole stays, because an older etcd may be unable to read what a newer one
# wrote. Without the API server's manifest, kubeadm would take the machine for a worker.
while read -r file; do
  whole "$file" || put_back "$file"
done < <(static_pods "$before")
while read -r file; do
  file=${file#"$before"}
  cmp -s "$before$file" "$file" || put_back "$file"
done < <(find "$before/etc/kubernetes" -path '*/manifests' -prune -o -type f -print)
put_back_kubelet
restart_if_changed
await_control_plane
end_run
