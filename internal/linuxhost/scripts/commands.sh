# Runs COMMANDS, one a line, in base64. A command may leave a process behind. That process must hold
# neither the job's lock nor its output, or the job would not end. A command is no argument of bash:
# all users of a host can read arguments. The locale of wrap.sh is for jobs' own messages.
source lib-job.sh
repeat() {
  local status=0
  env -u LC_ALL bash /dev/fd/7 7<<<"$1" >"$STATE/command.out" 2>&1 </dev/null 8>&- || status=$?
  tail -c 8192 "$STATE/command.out"
  return $status
}
while read -r command; do repeat "$(base64 -d <<<"$command")"; done <<<"$COMMANDS"
sync
mark "$RECORD" "$DIGEST"
