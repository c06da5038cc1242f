# Downloads a binary, or an archive of images, which with its images takes UNPACKED times its size.
# It continues where a download was cut short. It begins again where the server cannot continue, or
# the part is longer than the file: the digest decides, not the length.
source lib-job.sh
source lib-part.sh
source lib-room.sh

# full ends the job.
full() {
  rm -f "$PART"
  fail DiskFull "$1. Nothing was changed. Fix: free room there"
}

# fits FOLDER ROOM NEED ends the job if the archive does not fit. Both are in KiB.
fits() {
  [ "$2" -ge "$3" ] || full "$1 has room for $(($2 / 1024)) MiB, but $URL and its images need \
about $(($3 / 1024)) MiB there"
}

# look_for_room refuses an archive that does not fit, before it is fetched. If the server does not
# tell its size, the download ends where the room does.
look_for_room() {
  local images room size=''
  spare_in "$STATE"
  room=$((spare_kb + $(stat -c %s "$PART" 2>/dev/null || echo 0) / 1024))
  fits "$STATE" $room 1
  if command -v curl >/dev/null; then
    size=$(curl --fail --silent --head --location --max-time 20 "$URL" | tr -d '\r' |
      awk 'tolower($1) == "content-length:" { size = $2 } END { print size }') || true
  fi
  [[ "$size" =~ ^[0-9]+$ ]] || { ulimit -f $room; return 0; }
  images_folder
  size=$((size / 1024)) images=$found
  if [ -n "$images" ] && same_disk "$images" "$STATE"; then
    fits "$STATE" $room $((size + size * UNPACKED))
  else
    fits "$STATE" $room $size
    [ -n "$images" ] || return 0
    spare_in "$images"
    fits "$images" $spare_kb $((size + size * UNPACKED))
  fi
}

# is_cut tells whether the room has ended the download.
is_cut() {
  local size
  size=$(stat -c %s "$PART" 2>/dev/null || echo 0)
  [ "$(ulimit -f)" != unlimited ] && [ "$size" -ge $(($(ulimit -f) * 1024)) ]
}
download() {
  curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 \
    "$@" --output "$PART" "$URL"
}
mkdir -p "$(dirname "$FILE")"
[ -z "$UNPACKED" ] || look_for_room
if command -v curl >/dev/null; then
  download --continue-at - || { ! is_cut && rm -f "$PART" && download; } || {
    ! is_cut || full "$STATE has room for $(($(ulimit -f) / 1024)) MiB, and $URL is larger"
    df -Pk "$(dirname "$PART")" | awk 'NR==2 && $4 < 1024 {exit 1}' ||
      fail DiskFull "no space is left on the host for $URL"
    fail DownloadFailed "$URL could not be downloaded from the host"
  }
elif command -v wget >/dev/null; then
  rm -f "$PART"
  wget --quiet --tries 3 --timeout 20 --output-document "$PART" "$URL" || {
    ! is_cut || full "$STATE has room for $(($(ulimit -f) / 1024)) MiB, and $URL is larger"
    fail DownloadFailed "$URL could not be downloaded from the host"
  }
else
  fail ToolMissing \
    "the host has neither curl nor wget; install one, or send binaries from a bundle"
fi
accept_part
