# An archive of images waits, is in its place, or is not needed any longer.
source lib-check.sh
source lib-arrived.sh
source lib-archives.sh
is_placed "$BINARY" "$DIGEST" || images_settled && exit 0
is_known "$FILE" "$DIGEST" && waits
arrived
