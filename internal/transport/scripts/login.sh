# shellcheck shell=sh
# Becomes root where the login is not, and continues with the program $0, which gets the arguments.
command -v bash >/dev/null || { echo "bash is not installed" >&2; exit 127; }
if [ "$(id -u)" = 0 ]; then exec bash -c "$0" "$@"; fi
command -v sudo >/dev/null || { echo "sudo is not installed" >&2; exit 1; }
exec sudo -n -H bash -c "$0" "$@"
