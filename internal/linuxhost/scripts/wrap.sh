# Runs a job, and records its output and its exit code. It holds a lock for as long as any of the
# job's processes lives: a job that holds no lock and left no exit code was killed.
job="$STATE/job"
umask 077
exec 8>>"$STATE/job.lock"
flock -w 5 8 || exit 75
echo "$$" >"$job/pid"
cd /
# FailureOf knows the messages of programs in English. systemd-run passes no environment on.
export LC_ALL=C
export HOME="${HOME:-/root}"
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}:/usr/local/sbin:/usr/local/bin"
umask 022
# head would write only when it has 4 KiB.
line=()
command -v stdbuf >/dev/null && line=(stdbuf -oL)
began=$SECONDS
timeout --kill-after=30 "$LIMIT" bash "$job/run" </dev/null 2>&1 |
  { ${line[@]+"${line[@]}"} head -c 1048576 >"$job/out"; tail -c 65536 >"$job/out.last"; }
status=${PIPESTATUS[0]}
# It is 137, too, if something else has killed the job.
[ "$status" != 137 ] || [ $((SECONDS - began)) -lt "$LIMIT" ] || status=124
{
  printf -- '--- %s: exit %s\n' "$(cat "$job/id")" "$status"
  cat "$job/out" "$job/out.last" | tail -c 65536
} >>"$STATE/log"
if [ "$(stat -c %s "$STATE/log")" -gt 1048576 ]; then
  tail -c 524288 "$STATE/log" >"$STATE/log.new"
  mv "$STATE/log.new" "$STATE/log"
fi
date +%s >"$job/ended"
echo "$status" >"$job/exit.new" && sync "$job/ended" "$job/exit.new" &&
  mv "$job/exit.new" "$job/exit"
