# Ends a restart after which the service did not stay up. If RESTORE is set, the service gets back
# what it ran with before the upgrade, and kubeadm and the restart have to run again. WHY says why
# that is not done. In any case the job fails, and says what it did.
source lib-job.sh
source lib-running.sh
source lib-service.sh
source lib-kept.sh
words=$(cat "$OP/not-started") || true
did="$WHY"
if [ -n "$RESTORE" ]; then
  is_kept || fail ServiceNotStarted "$SERVICE does not stay up: $words; $kept is damaged"
  systemctl stop "$SERVICE" || true
  put_node_back
  rm -f "$OP/kubeadm-upgrade" "$OP/restart"
  did="$(<"$kept/version") and its configuration were put back"
  systemctl daemon-reload
fi
if stays_up; then
  did="$did, and the service runs"
else
  did="$did, and the service does not stay up: $(last_words)"
fi
rm -f "$OP/not-started"
sync "$OP"
fail ServiceNotStarted "$SERVICE does not stay up with $TARGET and its configuration: $words. $did"
