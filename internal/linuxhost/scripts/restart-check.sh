# The service runs, with what it was last restarted with.
source lib-check.sh
source lib-running.sh
[ -f "$OP/restart" ] && marked restart "$(running)" && systemctl is-active --quiet "$SERVICE" && same
