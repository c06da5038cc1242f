# Appends LENGTH bytes of stdin to a part of a file, which must have OFFSET bytes. If LAST is set,
# the part is the file afterwards. It exits with 76 where the part has another length: a connection
# ended in between, or an earlier part arrived whose answer was lost.
source lib-job.sh
source lib-part.sh
mkdir -p "$(dirname "$FILE")"
exec 7>>"$STATE/send.lock"
flock -n 7 || fail StepFailed "somebody else sends the same file"
[ "$(stat -c %s "$PART" 2>/dev/null || echo 0)" = "$OFFSET" ] || exit 76
cat >>"$PART"
[ "$(stat -c %s "$PART")" = $((OFFSET + LENGTH)) ] || exit 76
[ -z "$LAST" ] || accept_part
