source lib-kubelet.sh
# runtime_endpoint sets found to the endpoint of the container runtime that the kubelet has, or to
# nothing.
runtime_endpoint() {
  endpoint_in /var/lib/kubelet/{kubeadm-flags.env,instance-config.yaml,config.yaml}
  [ -n "$found" ] || { kubelet_others; endpoint_in ${others[@]+"${others[@]}"}; }
  found=${found//[\"\']/}
}

# endpoint_in FILE... sets found to the first one that files have.
endpoint_in() {
  local file line
  found=
  for file; do
    [ -f "$file" ] && [ -r "$file" ] || continue
    while IFS= read -r line || [ -n "$line" ]; do
      case "$line" in
        *--container-runtime-endpoint=*)
          found=${line##*--container-runtime-endpoint=} found=${found%%[ \"]*} ;;
        containerRuntimeEndpoint:*)
          found=${line#*:} found=${found#"${found%%[! ]*}"} ;;
      esac
      [ -z "$found" ] || return 0
    done <"$file"
  done
}
