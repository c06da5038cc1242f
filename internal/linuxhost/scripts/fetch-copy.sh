# Copies a binary from a folder of the host.
source lib-job.sh
source lib-part.sh
mkdir -p "$(dirname "$FILE")"
[ -f "$FROM" ] || fail DownloadFailed "there is no file $FROM on the host"
cp "$FROM" "$PART"
accept_part
