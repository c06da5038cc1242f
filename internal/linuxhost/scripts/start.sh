# Starts the script JOB as the job ID, and returns at once. It exits with 75 where another job
# runs, another upgrade is at work, or the job does not begin at once. It does nothing where the
# same job runs or has ended.
set -euo pipefail
umask 077
other() {
  read -r goal step _ <"$STATE/job/id"
  echo "another upgrade of this host is at work, to ${goal%-*}: its step $step $1"
  exit 75
}
mkdir -p "$STATE/op"
chmod 0700 "$STATE"
exec 9>>"$STATE/lock"
flock -w 5 9 || { echo 'another start does not end'; exit 75; }
if ! flock -n "$STATE/job.lock" true; then
  [ "$(cat "$STATE/job/id" 2>/dev/null)" = "$ID" ] && exit 0
  other runs
fi
[ "$(cat "$STATE/job/id" 2>/dev/null)" = "$ID" ] && [ -s "$STATE/job/exit" ] && exit 0

# An upgrade to something else that is between two steps is at work, too: until it is done, has
# failed, or nobody has continued it for the time that its last job left: a minute, and longer after
# a restart, because the program that drives an upgrade then waits for the node without a job.
last=
[ ! -f "$STATE/job/id" ] || read -r last _ <"$STATE/job/id"
if [ -n "$last" ] && [ "$last" != "$OPERATION" ] && [ ! -f "$STATE/op/$last/done" ] &&
  [ "$(cat "$STATE/job/exit" 2>/dev/null)" = 0 ]; then
  ended=$(cat "$STATE/job/ended" 2>/dev/null) || true
  idle=$(($(date +%s) - ${ended:-0}))
  after=$(cat "$STATE/job/stale" 2>/dev/null) || true
  if [ $idle -ge 0 ] && [ $idle -lt "${after:-60}" ]; then other "ended $idle s ago"; fi
fi

# It is not done any more, if it ever was.
rm -f "$STATE/op/$OPERATION/done"

# What earlier operations did counts for them only: the host may have changed since.
for old in "$STATE"/op/*; do [ "$old" = "$STATE/op/$OPERATION" ] || rm -rf "$old"; done
for old in "$STATE"/binaries/*; do [ "$old" = "$STATE/binaries/$VERSION" ] || rm -rf "$old"; done
new="$STATE/job.new"
rm -rf "$new"
mkdir "$new"
printf %s "$JOB" >"$new/run"
printf '%s\n' "$ID" >"$new/id"
printf '%s\n' "$PROOF" >"$new/proof"
printf '%s\n' "$STALE" >"$new/stale"
date +%s >"$new/started"
printf %s "$WRAP" >"$new/wrap"
sync "$new/run" "$new/id" "$new/proof" "$new/stale"
rm -rf "$STATE/job"
mv "$new" "$STATE/job"

# systemd-run makes the job a unit of its own, which neither the end of the connection nor that of
# the login's session ends. Hosts without it get a process in a session of its own. By default
# systemd ends the whole unit if the kernel kills one process for memory, and the exit code is lost.
# systemd before 243 has neither that default nor the property.
as_unit() {
  systemd-run --quiet --collect --unit "windlass-job-$(date +%s)-$$" \
    --property KillMode=control-group --property "RuntimeMaxSec=$((LIMIT + 90))" "$@" \
    /bin/bash "$STATE/job/wrap" 9>&- 2>/dev/null
}
if command -v systemd-run >/dev/null && { as_unit --property OOMPolicy=continue || as_unit; }; then
  :
else
  setsid nohup /bin/bash "$STATE/job/wrap" >/dev/null 2>&1 </dev/null 9>&- &
fi
# Until the job holds its lock, nobody may take it for killed.
for _ in $(seq 50); do
  [ -s "$STATE/job/pid" ] && exit 0
  sleep 0.1
done
echo 'the job was started, and has not begun yet'
exit 75
