# A service that is stopped until it is decided whether it gets back what it ran with before. What
# is written down then has a line with an id: the version, a process, a time, and the service. Then
# come the last words of the service, and which of its invocations was stopped.

# hold WORDS stops the service, and writes that down. If nothing is decided within HOLD seconds, the
# host starts the service again: the program that drives the upgrade may be gone, or may wait for an
# API server that needs this service. A host that cannot see to that keeps the service running.
hold() {
  local now id file=put-back
  now=$(date +%s)
  if [ -f "$KEEP/put-back" ]; then
    id=$(head -n 1 "$KEEP/put-back")
  else
    id="$TARGET $$ $now $SERVICE" file=not-started
    write "$KEEP/not-started" "$id
$1"
  fi
  if ! systemd-run --quiet --collect --unit "windlass-start-$now-$$" /bin/bash -c \
    "$(declare -f start_again)
$(declare -p STATE KEEP SERVICE HOLD id); start_again"; then
    rm -f "$KEEP/not-started"
    return 1
  fi
  systemctl stop "$SERVICE" || true
  write "$KEEP/$file" "$id
$1
stopped=$(invocation)"
}

# held_by prints what was written down, or nothing.
held_by() { cat "$KEEP/put-back" 2>/dev/null || cat "$KEEP/not-started" 2>/dev/null || true; }

# invocation prints which start of the service it is, or was; nothing if there was none since a
# boot.
invocation() { systemctl show --property InvocationID --value "$SERVICE"; }

# is_stopped reports whether the service is stopped, and was not started since. One that somebody or
# a boot has started may have registered in the cluster, also if it has ended.
is_stopped() {
  local now
  now=$(invocation)
  grep -qx -e dead -e failed <<<"$(systemctl show --property SubState --value "$SERVICE")" &&
    { [ -z "$now" ] || grep -qxF -e "stopped=$now" <<<"$(held_by)"; }
}

# start_again waits, also for a job that runs. Once it starts the service, nothing is put back any
# more, unless the put-back has begun: then half of it is no state to stay in.
start_again() {
  sleep "$HOLD"
  exec 8>>"$STATE/job.lock"
  flock 8
  if [ "$(head -n 1 "$KEEP/not-started" 2>/dev/null)" = "$id" ]; then
    rm -f "$KEEP/not-started"
  elif [ "$(head -n 1 "$KEEP/put-back" 2>/dev/null)" != "$id" ]; then
    return
  fi
  sync "$KEEP"
  systemctl reset-failed "$SERVICE"
  systemctl start --no-block "$SERVICE"
}
