# Restarts the service, and sees it run as one process in LOOKS looks, half a second apart: a node
# stays Ready in its cluster for some time after its service is gone. What the service was restarted
# with stands on the host: a service that somebody else has restarted since runs with it, too.
source lib-job.sh
source lib-running.sh
now=$(running)
began=$(date +%s)
complain() {
  journalctl --no-pager --lines 5 --since "@$began" --unit "$SERVICE" 2>/dev/null || true
  fail StepFailed "$1; see journalctl --unit $SERVICE on the host"
}
systemctl daemon-reload
systemctl restart "$SERVICE" || complain "systemctl restart $SERVICE failed"
calm=0 pid=
for _ in $(seq 60); do
  before=$pid
  pid=$(systemctl show --property MainPID --value "$SERVICE")
  if systemctl is-active --quiet "$SERVICE" && same && [ "$pid" = "$before" ]; then
    calm=$((calm + 1))
  else
    calm=0
  fi
  [ "$calm" -ge "$LOOKS" ] && break
  sleep 0.5
done
if [ "$calm" -lt "$LOOKS" ]; then
  systemctl is-active --quiet "$SERVICE" && ! same &&
    complain "$SERVICE runs another program than the one in $BIN"
  complain "$SERVICE does not stay up after its restart"
fi
mark restart "$now"
