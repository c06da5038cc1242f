# kubeadm has run for this operation. On a control plane, the manifest of the API server has an
# image with the tag TAG; TAG is empty elsewhere.
source lib-check.sh
marked kubeadm-upgrade "$TARGET" || exit 1
[ -n "$TAG" ] || exit 0
sed -n 's/^.*kube-apiserver:\([^" ]*\)"\{0,1\} *$/\1/p' \
  /etc/kubernetes/manifests/kube-apiserver.yaml | grep -qxF -e "$TAG"
