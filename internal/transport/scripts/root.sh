# shellcheck shell=bash
# Runs as root: prints so, starts the program $0, which gets the size $2, and prints how that ended.
# The nonce $1 is in each mark. The shell puts marks together: a script that prints the process list
# must not print them. Where a signal ends the program, bash would print so on stderr; that is kept
# out.
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
mark=windlass-
echo "$mark$1-root"
echo "$mark$1-root" >&2
exec 3>&2 2>/dev/null
bash -c "$0" windlass "$2" 2>&3 3>&-
code=$?
printf "%s-exit-%03d" "$mark$1" $code
printf "%s-exit-%03d" "$mark$1" $code >&3
exit $code
