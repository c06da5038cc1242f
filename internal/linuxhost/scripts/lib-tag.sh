source lib-read.sh
# tag sets found to the tag of the image in the API server's manifest.
tag() {
  local line tag tags='' manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  found=
  [ -f $manifest ] && [ -r $manifest ] || return 0
  while read -r line || [ -n "$line" ]; do
    tag=${line##*kube-apiserver:}
    [ "$tag" != "$line" ] || continue
    tag=${tag%\"}
    case "$tag" in *[\"\ ]*) ;; *) tags+=$tag$'\n' ;; esac
  done <$manifest
  found=$tags
  trim
}
