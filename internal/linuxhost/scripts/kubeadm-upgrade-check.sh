# kubeadm has run for this operation. On a control plane, the manifest of the API server has an
# image with the tag TAG; TAG is empty elsewhere.
source lib-check.sh
source lib-tag.sh
marked kubeadm-upgrade "$TARGET" || exit 1
[ -n "$TAG" ] || exit 0
tag
case $'\n'$found$'\n' in *$'\n'"$TAG"$'\n'*) exit 0 ;; esac
exit 1
