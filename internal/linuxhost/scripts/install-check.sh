# A binary is in its place.
source lib-check.sh
[ "$(digest "$BIN/$BINARY")" = "$DIGEST" ]
