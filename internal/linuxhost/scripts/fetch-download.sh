# Downloads a binary. It continues where a download was cut short. It begins again where the server
# cannot continue, or the part is longer than the file: the digest decides, not the length.
source lib-job.sh
source lib-part.sh
download() {
  curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 \
    "$@" --output "$PART" "$URL"
}
mkdir -p "$(dirname "$FILE")"
if command -v curl >/dev/null; then
  download --continue-at - || { rm -f "$PART"; download; } || {
    df -Pk "$(dirname "$PART")" | awk 'NR==2 && $4 < 1024 {exit 1}' ||
      fail DiskFull "no space is left on the host for $URL"
    fail DownloadFailed "$URL could not be downloaded from the host"
  }
elif command -v wget >/dev/null; then
  rm -f "$PART"
  wget --quiet --tries 3 --timeout 20 --output-document "$PART" "$URL" ||
    fail DownloadFailed "$URL could not be downloaded from the host"
else
  fail ToolMissing \
    "the host has neither curl nor wget; install one, or send binaries from a bundle"
fi
accept_part
