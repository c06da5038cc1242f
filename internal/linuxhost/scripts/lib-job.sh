# Begins each job. A command that fails ends the job.
set -euo pipefail
umask 022

# fail REASON MESSAGE ends the job with a reason, in the form that FailureOf parses.
fail() { printf 'windlass-reason %s: %s\n' "$1" "$2"; exit 1; }
digest() { sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1; }
# write FILE TEXT is whole or does not happen, also in a power cut.
write() { printf %s "$2" >"$1.new"; sync "$1.new"; mv "$1.new" "$1"; sync "$(dirname "$1")"; }
# mark NAME TEXT records something for this operation.
mark() { write "$OP/$1" "$2"; }
(umask 077; mkdir -p "$OP" "$KEEP")
