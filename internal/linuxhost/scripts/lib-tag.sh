# tag prints the tag of the image in the API server's manifest.
tag() {
  sed -n 's/^.*kube-apiserver:\([^" ]*\)"\{0,1\} *$/\1/p' \
    /etc/kubernetes/manifests/kube-apiserver.yaml 2>/dev/null
}
