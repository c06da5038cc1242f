# Archives are large, so their digests are computed once: beside a file that arrived, a file
# NAME.sum has its digest, its size and when it was written.

# sum_of FILE PATH prints what the file PATH.sum has for FILE, whose digest is DIGEST.
sum_of() { printf '%s %s\n' "$DIGEST" "$(stat -c '%s %Y' "$1" 2>/dev/null)"; }

# is_known FILE tells whether a file is the one that was verified.
is_known() { [ -f "$1" ] && [ "$(cat "$1.sum" 2>/dev/null)" = "$(sum_of "$1")" ]; }
