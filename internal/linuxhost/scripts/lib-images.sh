# The images that kubeadm needs on the host, and the container runtime that keeps them.
PATH="$PATH:/usr/local/sbin:/usr/local/bin"

source lib-runtime.sh
# cri is crictl with that endpoint, or else with the host's configuration of crictl.
runtime_endpoint
endpoint=$found
cri=(crictl)
[ -z "$endpoint" ] || cri+=(--runtime-endpoint "$endpoint" --image-endpoint "$endpoint")

# missing prints those of the images on stdin that the host lacks.
missing() {
  local image
  # The last line may have no end.
  while read -r image || [ -n "$image" ]; do
    [ -z "$image" ] || "${cri[@]}" inspecti "$image" >/dev/null 2>&1 </dev/null || echo "$image"
  done
}

# images_settled tells whether the images do not matter any longer: kubeadm has begun with the
# goal's version, and pulls what it lacks itself, or the kubelet is the goal's.
images_settled() {
  local begun
  [ "$(digest "$BIN/kubelet")" = "$KUBELET" ] && return
  read -r begun _ 2>/dev/null <"$KEEP/kubeadm" && [ "$begun" = "$VERSION" ]
}

# images_ready tells whether the step has brought the images, and they are still there.
images_ready() { [ -f "$OP/images" ] && [ -z "$(missing <"$OP/images")" ]; }
