# Prints the facts of any host. It changes nothing.
set -u
source lib-fact.sh
source lib-room.sh
source lib-kept.sh

# Jobs are started under this lock: a job that is just being started is neither missing nor gone.
# The lock is waited for not long, and released as soon as the job is known.
if [ -e "$STATE/lock" ]; then exec 9<"$STATE/lock"; flock -s -w 2 9; fi
sizes() {
  local total=0 file
  for file in "$@"; do
    [ -f "$file" ] && total=$((total + $(stat -Lc %s "$file") / 1024))
  done
  echo $total
}
now=$(date +%s)
fact time "$now"
# The boot by the same clock, which may have been set since.
up=
[ ! -r /proc/uptime ] || read -r up _ </proc/uptime
[ -z "$up" ] || fact boot $((now - ${up%.*}))
fact arch "$(uname -m)"
# A file is created only where the folder looks read-only: then the shell's error tells why.
probe="$BIN/.windlass-probe-$$"
if [ -w "$BIN" ] || why=$( { : >"$probe"; } 2>&1 ); then
  fact writable yes
  rm -f "$probe"
else
  fact writable no
  fact writable-why "${why##*: }"
fi
fact free-kb "$(free "$BIN")"
job="$STATE/job"
if [ -f "$job/id" ]; then
  fact job "$(cat "$job/id")"
  fact job-started "$(cat "$job/started" 2>/dev/null)"
  # What a job leaves is read after its state. Otherwise one that ends meanwhile would be known to
  # have failed, and what it says and marks about that would not.
  if ! flock -n "$STATE/job.lock" true; then fact job-state running
  elif [ -s "$job/exit" ]; then
    fact job-state ended
    fact job-exit "$(cat "$job/exit")"
    fact job-ended "$(cat "$job/ended" 2>/dev/null)"
  else fact job-state vanished; fi
  # Where the output is cut, its first line is not whole: it may be the rest of a secret without
  # its name.
  whole=1
  [ "$(cat "$job/out" "$job/out.last" 2>/dev/null | wc -c)" -le 4096 ] || whole=2
  fact job-output "$(cat "$job/out" "$job/out.last" 2>/dev/null | tail -c 4096 | tail -n +$whole)"
fi
exec 9>&-
[ -f "$OP/drained" ] && fact drained yes
[ -f "$KEEP/cordoned" ] && ! is_older "$KEEP/cordoned" && fact cordoned yes
[ -f "$KEEP/node/digest" ] && fact kept "$(cat "$KEEP/node/version")"
# A service that runs since then is not stopped for it.
is_held && ! is_in_use && fact not-started yes
[ -f "$OP/done" ] && [ ! -d "$STATE/binaries" ] && fact cleaned yes
