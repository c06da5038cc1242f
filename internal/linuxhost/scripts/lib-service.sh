# A restart of SERVICE. It needs lib-running, for same.

# stays_up restarts the service, and sees it run.
stays_up() {
  began=$(date +%s)
  # A service that ended often is not started any more until that is forgotten.
  systemctl reset-failed "$SERVICE" 2>/dev/null || true
  systemctl restart "$SERVICE" || return 1
  is_calm 60
}

# is_calm COUNT looks at the service up to COUNT times, half a second apart, until it was one
# process in LOOKS looks: a node stays Ready in its cluster for some time after its service is gone.
# It returns 1 as soon as the process has ended by itself, and 2 in all other cases.
is_calm() {
  local calm=0 tries pid='' before now restarts
  restarts=$(systemctl show --property NRestarts --value "$SERVICE")
  for ((tries = 0; tries < $1; tries++)); do
    before=$pid pid=''
    now=$'\n'$(systemctl show --property MainPID --property NRestarts --property SubState "$SERVICE")
    case "$now" in *$'\n'MainPID=*) pid=${now##*$'\n'MainPID=} pid=${pid%%$'\n'*} ;; esac
    case "$now"$'\n' in *$'\n'"NRestarts=$restarts"$'\n'*) ;; *) return 1 ;; esac
    case "$now" in *$'\n'SubState=auto-restart* | *$'\n'SubState=failed* | *$'\n'SubState=dead*)
      return 1 ;;
    esac
    if systemctl is-active --quiet "$SERVICE" && same && [ "$pid" = "$before" ]; then
      calm=$((calm + 1))
    else
      calm=0
    fi
    [ "$calm" -lt "$LOOKS" ] || return 0
    sleep 0.5
  done
  return 2
}

# last_words prints why the service ended: its last line about an error, or else its last line.
last_words() {
  local lines
  lines=$(journalctl --no-pager --output cat --lines 50 --since "@$began" --unit "$SERVICE" 2>/dev/null |
    grep -v -e '^-- ' -e "^$SERVICE.service: " -e '^\(Start\|Stopp\)\(ed\|ing\) ') || true
  { grep -i -e err -e fail -e unknown -e invalid <<<"$lines" || echo "$lines"; } |
    tail -n 1 | cut -c 1-400
}
