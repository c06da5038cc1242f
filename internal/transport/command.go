package transport

import (
	"fmt"
	"strings"
)

// searchPath is where programs are looked for, after what the host's login says.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// exitNoBash is the exit status where bash is missing, as of all shells where a program is.
	exitNoBash = 127
	// markPrefix begins all marks.
	markPrefix = "windlass-"
	// exitCodeDigits is how long the exit status is after the mark of the end.
	exitCodeDigits = 3
)

// The programs go through a login shell in single quotes, whatever shell that is: so they hold no single quote and no backslash.

// outer runs as root: it says so, starts the shell of the script ($0), and says how that ended. Where a signal ended it, bash would tell so on
// stderr; that is kept out. The marks are put together by the shell: a script that prints the process list must not print them.
func (r *Run) outer() string {
	return fmt.Sprintf(`export LC_ALL=C PATH="$PATH:%[3]s"; m=%[1]s; echo "${m}%[2]s-root"; echo "${m}%[2]s-root" >&2; exec 3>&2 2>/dev/null; `+
		`bash -c "$0" windlass 2>&3 3>&-; code=$?; printf "${m}%[2]s-exit-%%03d" $code; printf "${m}%[2]s-exit-%%03d" $code >&3; exit $code`,
		markPrefix, r.nonce, searchPath)
}

// inner reads the script, byte for byte, and runs it. What follows the script on stdin is the script's. One that is cut off does not run.
func (r *Run) inner() string {
	return fmt.Sprintf(`IFS= read -r -N %d windlass || exit 255; eval "unset windlass;$windlass"`, r.size)
}

// login becomes root where it is not, and goes on with $0, which gets $1.
const login = `command -v bash >/dev/null || { echo "bash is not installed" >&2; exit 127; }; ` +
	`if [ "$(id -u)" = 0 ]; then exec bash -c "$0" "$1"; fi; ` +
	`command -v sudo >/dev/null || { echo "sudo is not installed" >&2; exit 1; }; exec sudo -n -H bash -c "$0" "$1"`

// LoginCommand is the command line for the shell of a user's login, which is root or may use sudo without a password.
func (r *Run) LoginCommand() string {
	return fmt.Sprintf("exec sh -c '%s' '%s' '%s'", login, r.outer(), r.inner())
}

// NodeCommand is the command for a privileged container that sees the host's processes: it leaves the container for the host. Nothing of the
// container's environment is kept.
func (r *Run) NodeCommand() []string {
	return append(strings.Fields("nsenter -t 1 -m -u -i -n -p -- env -i HOME=/root PATH="+searchPath+" bash -c"), r.outer(), r.inner())
}
