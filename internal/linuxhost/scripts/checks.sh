# Runs the checks of steps, and prints their results for ParseChecks. It changes nothing.
# CHECKS has, for each step, a line such as "restart 40 lines", and then the lines of its check.
# INSTALLED has a file on each line.
# A check is no argument of bash: all users of a host can read arguments, and the kernel limits them.
source lib-fact.sh
mapfile -t files <<<"$INSTALLED"
# shellcheck disable=SC2034 # lib-check reads it.
KNOWN=$(sha256sum "${files[@]}" 2>/dev/null)
while read -r name count _; do
  [ -n "$name" ] || continue
  mapfile -n "$count" lines
  # A subshell for each check, so that none sees what another has set.
  printed=$(IFS= && check="${lines[*]}" && unset IFS && eval "$check" 2>/dev/null </dev/null)
  printf '%s %s ' "$name" $?
  encode "$printed"
done <<<"$CHECKS"
echo end
