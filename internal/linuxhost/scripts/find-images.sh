# Sees that RKE2 will find the image of its runtime, from which it takes the programs of a version
# when it starts: in an archive on the host, or in its registry.
source lib-job.sh
source lib-rancher.sh
source lib-answer.sh
unit=$(node_unit)
data=$(data_dir)
tag=${TARGET//+/-}
cri=("$data/bin/crictl")

# found ends the step.
found() {
  echo "$1"
  mark images "$1"
  exit 0
}

# list FILE prints the list of images in an archive. It fails if the host has no program to read it.
list() {
  local unpack=(cat)
  case "$1" in
    *.zst | *.tzst) unpack=(zstd -dcq) ;;
    *.gz | *.tgz) unpack=(gzip -dc) ;;
    *.bz2 | *.tbz) unpack=(bzip2 -dc) ;;
    *.lz4) unpack=(lz4 -dcq) ;;
    *.tar) ;;
    *) return 0 ;;
  esac
  command -v "${unpack[0]}" >/dev/null || return 1
  "${unpack[@]}" "$1" 2>/dev/null | tar -xO manifest.json 2>/dev/null || true
}

compgen -G "$data/data/$tag-*/bin" >/dev/null && found "the programs of $TARGET are on the host"
unread=''
for file in "$data"/agent/images/*; do
  [ -f "$file" ] || continue
  names=$(list "$file") || unread=$file
  [[ "$names" != *rke2-runtime:$tag* ]] || found "$file has the image of the runtime"
done
[ -z "$unread" ] || found "$unread is not looked at: the host cannot read it"
[ -z "$(setting runtime-image '')" ] || found 'the image of the runtime is configured, and not looked at'
registry=$(setting system-default-registry '')
registry=${registry:-$(variable SYSTEM_DEFAULT_REGISTRY)}
[ "$(setting prime '')" != true ] || registry=${registry:-registry.rancher.com}
endpoint=$(setting container-runtime-endpoint '')
endpoint=${endpoint:-unix:///run/k3s/containerd/containerd.sock}
cri+=(--runtime-endpoint "$endpoint" --image-endpoint "$endpoint")
[ -x "$data/bin/crictl" ] || found 'the image of the runtime is not looked at: RKE2 does not run'
image=${registry:-docker.io}/rancher/rke2-runtime:$tag
told=$(pull "$image" "${cri[@]}") || case "$(reason_of "$told")" in
  RuntimeUnavailable) found 'the image of the runtime is not looked at: containerd does not answer' ;;
  *) refuse "$image" "$told" "add rke2-images-core.linux-ARCH.tar.zst and the other archives of the \
release to the manifest of digests" ;;
esac
found "$image is in its registry"
