package transport

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The programs, in the order in which each starts the next one.
var (
	//go:embed scripts/login.sh
	loginFile string
	//go:embed scripts/root.sh
	rootFile string
	//go:embed scripts/run.sh
	runFile string

	login, root, run = oneLine(loginFile), oneLine(rootFile), oneLine(runFile)
)

var comments = regexp.MustCompile(`(?m)^#.*\n`)

// oneLine makes one line of a program: it goes through a login shell in single quotes, whatever
// shell that is. So a program holds no single quote and no backslash, and each line is a command.
func oneLine(program string) string {
	commands := strings.TrimSpace(comments.ReplaceAllString(program, ""))
	return strings.ReplaceAll(commands, "\n", "; ")
}

// searchPath is where programs are looked for on the host of a container.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// exitNoBash is the exit status where bash is missing, as of all shells where a program is.
	exitNoBash = 127
	// markPrefix begins all marks.
	markPrefix = "windlass-"
	// exitCodeDigits is how long the exit status is after the mark of the end.
	exitCodeDigits = 3
)

// LoginCommand is the command line for the shell of a user's login, which is root or may use sudo without a password.
func (r *Run) LoginCommand() string {
	return fmt.Sprintf("exec sh -c '%s' '%s' '%s' %s %d", login, root, run, r.nonce, r.size)
}

// NodeCommand is the command for a privileged container that sees the host's processes: it leaves the container for the host. Nothing of the
// container's environment is kept.
func (r *Run) NodeCommand() []string {
	leave := strings.Fields("nsenter -t 1 -m -u -i -n -p -- env -i HOME=/root PATH=" + searchPath + " bash -c")
	return append(leave, root, run, r.nonce, strconv.Itoa(r.size))
}
