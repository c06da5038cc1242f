package hosts

import (
	"math"
	"strconv"
	"time"
)

// StartBusy is the exit code of StartScript where another job runs, another upgrade is at work, or the job does not begin at once.
const StartBusy = 75

// StartScript starts a step's script as a job, and returns at once. The script is what it reads from stdin. It does nothing where the same job
// runs or has ended.
//
// systemd-run makes the job a unit of its own, which neither the end of the connection nor that of the login's session ends. Hosts without it
// get a process in a session of its own. The job holds a lock for as long as any of its processes lives: what holds no lock and left no exit
// code was killed. proof is kept with the job.
func StartScript(g Goal, step Name, attempt, proof string, limit time.Duration) string {
	return g.script(startScript, value{"proof", proof},
		value{"id", g.Operation() + " " + string(step) + " " + attempt}, value{"operation", g.Operation()},
		value{"limit", strconv.FormatInt(int64(math.Ceil(limit.Seconds())), 10)})
}

// claimSeconds is how long an upgrade keeps others from beginning after the end of its last step. Whoever drives an upgrade looks every few seconds.
const claimSeconds = "60"

const startScript script = `set -euo pipefail
umask 077
other() { read -r goal step _ <"$state/job/id"; echo "another upgrade of this host is at work, to ${goal%-*}: its step $step $1"; }
mkdir -p "$state/op"
chmod 0700 "$state"
exec 9>>"$state/lock"
flock -w 5 9 || { echo 'another start does not end'; exit 75; }
if ! flock -n "$state/job.lock" true; then
  [ "$(cat "$state/job/id" 2>/dev/null)" = "$id" ] && exit 0
  other runs
  exit 75
fi
[ "$(cat "$state/job/id" 2>/dev/null)" = "$id" ] && [ -s "$state/job/exit" ] && exit 0
# An upgrade to something else that is between two steps is at work, too: until it is done, has failed, or nobody has gone on with it for a while.
last=
[ ! -f "$state/job/id" ] || read -r last _ <"$state/job/id"
if [ -n "$last" ] && [ "$last" != "$operation" ] && [ "$(cat "$state/job/exit" 2>/dev/null)" = 0 ] && [ ! -f "$state/op/$last/done" ]; then
  idle=$(($(date +%s) - $(cat "$state/job/ended" 2>/dev/null || echo 0)))
  if [ $idle -ge 0 ] && [ $idle -lt ` + claimSeconds + ` ]; then other "ended $idle s ago"; exit 75; fi
fi
# What earlier operations did counts for them only: the host may have changed since.
for old in "$state"/op/*; do [ "$old" = "$state/op/$operation" ] || rm -rf "$old"; done
for old in "$state"/binaries/*; do [ "$old" = "$state/binaries/$version" ] || rm -rf "$old"; done
new="$state/job.new"
rm -rf "$new"
mkdir "$new"
cat >"$new/run"
printf '%s\n' "$id" >"$new/id"
printf '%s\n' "$proof" >"$new/proof"
date +%s >"$new/started"
cat >"$new/wrap" <<'WRAP'
state=` + StateFolder + `
job="$state/job"
umask 077
exec 8>>"$state/job.lock"
flock -w 5 8 || exit 75
echo "$$" >"$job/pid"
cd /
export HOME="${HOME:-/root}" PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}:/usr/local/sbin:/usr/local/bin"
umask 022
timeout --kill-after=30 "$1" bash "$job/run" </dev/null 2>&1 | { head -c 1048576 >"$job/out"; tail -c 65536 >"$job/out.last"; }
status=${PIPESTATUS[0]}
{ printf -- '--- %s: exit %s\n' "$(cat "$job/id")" "$status"; cat "$job/out" "$job/out.last" | tail -c 65536; } >>"$state/log"
if [ "$(stat -c %s "$state/log")" -gt 1048576 ]; then tail -c 524288 "$state/log" >"$state/log.new"; mv "$state/log.new" "$state/log"; fi
date +%s >"$job/ended"
echo "$status" >"$job/exit.new" && sync "$job/exit.new" && mv "$job/exit.new" "$job/exit"
WRAP
sync "$new/run" "$new/id" "$new/proof"
rm -rf "$state/job"
mv "$new" "$state/job"
if command -v systemd-run >/dev/null && systemd-run --quiet --collect --unit "windlass-job-$(date +%s)-$$" --property KillMode=control-group \
  --property "RuntimeMaxSec=$((limit + 90))" /bin/bash "$state/job/wrap" "$limit" 9>&- 2>/dev/null; then :
else setsid nohup /bin/bash "$state/job/wrap" "$limit" >/dev/null 2>&1 </dev/null 9>&- & fi
# Until the job holds its lock, nobody may take it for killed.
for _ in $(seq 50); do
  [ -s "$state/job/pid" ] && exit 0
  sleep 0.1
done
echo 'the job was started, and has not begun yet'
exit 75
`

// DrainedScript records that the node is drained, and CordonedScript that it was schedulable before.
func DrainedScript(g Goal) string { return g.script(jobHeader + "mark drained yes\n") }

// CordonedScript records, before a drain, that the node was schedulable: the upgrade makes it schedulable again.
func CordonedScript(g Goal) string { return g.script(jobHeader + `write "$keep/cordoned" yes` + "\n") }

// UncordonedScript records that the node was made schedulable again, so that what a person does afterwards stays.
func UncordonedScript(g Goal) string { return g.script(jobHeader + `rm -f "$keep/cordoned"` + "\n") }

// CleanScript removes what an upgrade that is done needs no longer: binaries that are in their places take as much room as these. It records that the upgrade is
// done, so that nobody waits for it.
func CleanScript(g Goal) string {
	return g.script(jobHeader + `rm -rf "$state/binaries"` + "\nmark \"done\" yes\n")
}

// SendScript appends length bytes of stdin to a part of a file of the bundle, that must have offset bytes. Where whole is set, the part is the
// file afterwards, if its digest is right. A connection that ends in between leaves a part that is shorter, and is gone on with.
func SendScript(g Goal, send Send, offset, length int64, whole bool) string {
	text := jobHeader + appendPart
	if whole {
		text += acceptPart
	}
	return g.script(text, value{"path", send.Path}, value{"part", send.Part}, value{"wanted", string(send.Digest)},
		value{"offset", strconv.FormatInt(offset, 10)}, value{"length", strconv.FormatInt(length, 10)}, value{"moved", strconv.Itoa(SendMoved)})
}

const appendPart script = `mkdir -p "$(dirname "$path")"
exec 7>>"$state/send.lock"
flock -n 7 || fail ` + script(StepFailed) + ` "somebody else sends the same file"
[ "$(stat -c %s "$part" 2>/dev/null || echo 0)" = "$offset" ] || exit "$moved"
cat >>"$part"
[ "$(stat -c %s "$part")" = $((offset + length)) ] || exit "$moved"
`

// SendMoved is the exit code of SendScript where the part is not as long as was thought: an earlier part arrived whose answer was lost.
const SendMoved = 76
