# A binary is there in its place, or where it waits.
source lib-check.sh
source lib-arrived.sh
[ "$(digest "$BIN/$BINARY")" = "$DIGEST" ] || [ "$(digest "$FILE")" = "$DIGEST" ] || arrived
