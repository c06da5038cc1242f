# A binary is there in its place, or where it waits. Prints how much of it has arrived, or that FROM,
# the file on the host that would be copied, is missing. FROM is empty for other sources.
source lib-check.sh
[ "$(digest "$BIN/$BINARY")" = "$DIGEST" ] || [ "$(digest "$FILE")" = "$DIGEST" ] || {
  if [ -n "$FROM" ] && [ ! -f "$FROM" ]; then
    printf 'missing %s\n' "$FROM"
  else
    printf 'part %s\n' "$(stat -c %s "$PART" 2>/dev/null || echo 0)"
  fi
  exit 1
}
