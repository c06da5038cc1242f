# Archives are large, so their digests are computed once: beside a file that arrived, a file
# NAME.sum has its digest, its size and when it was written.

# sum_of FILE DIGEST prints what is kept of a file with a digest.
sum_of() { printf '%s %s\n' "$2" "$(stat -c '%s %Y' "$1" 2>/dev/null)"; }

# is_known FILE DIGEST tells whether a file is the one that was verified.
is_known() { [ -f "$1" ] && [ "$(cat "$1.sum" 2>/dev/null)" = "$(sum_of "$1" "$2")" ]; }
