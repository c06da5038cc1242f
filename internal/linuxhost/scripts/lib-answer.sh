# What a container runtime answers, in words for people.

# answer OUTPUT prints its last line, without what leads to it, and without the queries of URLs:
# they may hold credentials.
answer() {
  { grep . <<<"$1" || echo 'it printed nothing'; } | tail -n 1 |
    sed 's/^.*desc = //; s/?[^ "]*//g' | cut -c 1-400
}

# reason_of OUTPUT tells what kind of an error it is. Containerd and CRI-O pass on what the registry
# has answered.
reason_of() {
  case "$1" in
    *'no space left'*) echo DiskFull ;;
    *'dial unix'* | *'validate CRI'* | *'validate service connection'*) echo RuntimeUnavailable ;;
    *nauthorized* | *'authentication required'* | *'authorization failed'* | *orbidden* | \
      *denied* | *x509* | *certificate*) echo RegistryRefused ;;
    *'no such host'* | *'server misbehaving'* | *'connection refused'* | *'connection reset'* | \
      *'no route to host'* | *unreachable* | *imeout* | *eadline* | *EOF* | *oomany* | \
      *'Too Many Requests'* | *'Service Unavailable'* | *'Bad Gateway'* | \
      *'Internal Server Error'*) echo RegistryUnreachable ;;
    *'not found'* | *'manifest unknown'* | *NotFound*) echo ImageMissing ;;
    *) echo ImagePullFailed ;;
  esac
}

# pull IMAGE CRICTL... pulls an image with a command of crictl. It tries again what may pass, such
# as a registry that is not reached. It prints the last error.
pull() {
  local told='' image=$1
  for _ in 1 2 3; do
    told=$(timeout 600 "${@:2}" pull "$image" 2>&1 </dev/null) && return
    case "$(reason_of "$told")" in
      RegistryUnreachable | RuntimeUnavailable | ImagePullFailed) sleep 2 ;;
      *) break ;;
    esac
  done
  printf '%s\n' "$told"
  return 1
}

# refuse IMAGE OUTPUT WAY ends the job with the reason for which an image was not pulled. WAY is
# another way to bring the image to the host.
refuse() {
  local reason fix
  reason=$(reason_of "$2")
  case "$reason" in
    ImageMissing) fix="push the image, or correct the registry in the cluster's configuration" ;;
    RegistryRefused) fix="correct the container runtime's credentials for the registry" ;;
    RegistryUnreachable) fix='have the container runtime reach the registry' ;;
    RuntimeUnavailable) fix='have crictl images succeed on the host' ;;
    DiskFull) fix='free room for images' ;;
    *) fix="have crictl pull $1 succeed on the host" ;;
  esac
  fail "$reason" "the host lacks the image $1, and cannot pull it: $(answer "$2"). Nothing was \
changed. Fix: $fix; or $3"
}
