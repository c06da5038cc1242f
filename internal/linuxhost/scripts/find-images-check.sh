# The image of RKE2's runtime was found for this operation, or the binary is in its place.
source lib-check.sh
[ -f "$OP/images" ] || [ "$(digest "$BIN/$DISTRIBUTION")" = "$PROGRAM" ]
