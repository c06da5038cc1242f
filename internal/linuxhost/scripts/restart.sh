# Restarts the service, and sees it run. What the service was restarted with stands on the host: a
# service that somebody else has restarted since runs with it, too.
#
# A service that ends is started once more after a while: what it needs may not have been there. If
# it ends again, and what it ran with before is kept, it is stopped, so that it changes nothing in
# the cluster until it is decided what to do. The host itself limits that time.
source lib-job.sh
source lib-running.sh
source lib-service.sh
source lib-kept.sh
source lib-hold.sh
now=$(running)
# What a person has repaired is what comes back.
[ ! -d "$kept" ] || [ "$(cat "$OP/restart" 2>/dev/null)" = "$now" ] || keep_node
complain() { fail "$1" "$2; see journalctl --unit $SERVICE on the host"; }
systemctl daemon-reload
rm -f "$KEEP"/{not-started,put-back}
if ! stays_up && ! { sleep 10 && stays_up; }; then
  words=$(last_words)
  systemctl is-active --quiet "$SERVICE" && ! same &&
    complain StepFailed "$SERVICE runs another program than the one in $BIN"
  if is_kept; then hold "$words" || true; fi
  complain ServiceNotStarted "$SERVICE does not stay up after its restart: $words"
fi
mark restart "$now"
