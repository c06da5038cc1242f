# Ends a restart after which the service did not stay up. If RESTORE is set, the service gets back
# what it ran with before the upgrade, and kubeadm and the restart have to run again. WHY says why
# that is not done. Then the service is started, and the job fails, and says what it did. A service
# that was started since and runs is left alone, and so are files that were changed since.
#
# It ends well if the service was started since its Node was looked up, and ended again: it is
# stopped, so that the Node can be looked up again. That happens once, to FIRST.
source lib-job.sh
source lib-running.sh
source lib-service.sh
source lib-kept.sh
source lib-hold.sh
held=$(held_by)
read -r with _ <<<"$held"
words=$(sed -e 1d -e '/^stopped=/d' <<<"$held")
back="$(cat "$kept/version" 2>/dev/null) and its configuration were put back"

# runs tells whether the service was started since, and did not end again.
runs() {
  local status=0
  ! is_stopped || return 1
  is_calm 600 || status=$?
  [ $status != 1 ]
}

# repaired prints a file that somebody has changed since the service was stopped. Once the put-back
# has begun, the files are its own.
repaired() {
  [ ! -f "$KEEP/not-started" ] || changed_since "$KEEP/not-started" | head -n 1
}

# mark_begun marks that the put-back has begun. From then on the upgrade has to do its steps again,
# also if this is cut short for good.
mark_begun() {
  [ -f "$KEEP/put-back" ] || mv "$KEEP/not-started" "$KEEP/put-back"
  rm -f "$OP/kubeadm-upgrade" "$OP/restart"
  sync "$KEEP" "$OP"
}

leave=''
did="$WHY"
if runs; then
  leave=yes
  if [ ! -f "$KEEP/put-back" ]; then
    did="Nothing was put back, because $SERVICE was started since, and did not end again"
  else
    mark_begun
    did="Not all was put back, because $SERVICE was started since, and did not end again"
    if is_kept && [ -z "$(not_back)" ]; then did="$back, and the service runs"; fi
  fi
elif [ -z "$RESTORE" ]; then
  :
elif [ -n "$(repaired)" ]; then
  did="Nothing was put back, because $(repaired) was changed since"
elif ! is_held || ! is_stopped; then
  if [ -n "$FIRST" ] && is_held && hold "$words"; then exit 0; fi
  did="Nothing was put back, because $SERVICE was started since its Node was looked up"
elif ! is_kept; then
  did="Nothing was put back, because $kept is damaged"
else
  mark_begun
  # However this ends, the service is not left stopped.
  trap 'systemctl start --no-block "$SERVICE" || true' EXIT
  systemctl stop "$SERVICE" || true
  put_node_back
  did=$back
  systemctl daemon-reload
fi
if [ -n "$leave" ]; then
  :
elif stays_up; then
  did="$did, and the service runs"
else
  did="$did, and the service does not stay up: $(last_words)"
fi
rm -f "$KEEP"/{not-started,put-back}
sync "$KEEP"
fail ServiceNotStarted "$SERVICE does not stay up with ${with:-$TARGET} and its configuration: \
$words. $did"
