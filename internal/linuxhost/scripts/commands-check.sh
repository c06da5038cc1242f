# The commands have run for this operation.
source lib-check.sh
marked "$RECORD" "$DIGEST"
