# A binary is there in its place, or where it waits. Prints how much of it has arrived.
source lib-check.sh
[ "$(digest "$BIN/$BINARY")" = "$DIGEST" ] || [ "$(digest "$FILE")" = "$DIGEST" ] ||
  { printf 'part %s\n' "$(stat -c %s "$PART" 2>/dev/null || echo 0)"; exit 1; }
