package hosts

import (
	"fmt"
	"strings"
	"time"
)

// script is the text of a shell script. It is always a constant: values reach it as variables, which render sets. A value is never parsed by bash, and
// never becomes a part of a program for sed or awk.
type script string

// value is a variable of a script.
type value struct{ name, content string }

// render returns the script that bash runs: one assignment for each value, in single quotes, and then the text. A script with a NUL byte does not run:
// rootscript refuses it.
func render(text script, values ...value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s='%s'\n", v.name, strings.ReplaceAll(v.content, "'", `'\''`))
	}
	b.WriteString(string(text))
	return b.String()
}

// jobHeader begins the script of each job: a command that fails ends it. fail prints a reason and a sentence in the form that FailureOf parses.
const jobHeader script = `set -euo pipefail
umask 022
fail() { printf '%s%s: %s\n' '` + ReasonMark + `' "$1" "$2"; exit 1; }
digest() { sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1; }
marked() { [ "$(cat "$op/$1" 2>/dev/null)" = "$2" ]; }
write() { printf %s "$2" >"$1.new"; sync "$1.new"; mv "$1.new" "$1"; sync "$(dirname "$1")"; }
mark() { write "$op/$1" "$2"; }
(umask 077; mkdir -p "$op" "$keep")
`

// checkHeader begins each check. A check writes nothing. known holds digests that were computed once for all checks, because binaries are large.
const checkHeader script = `set -uo pipefail
digest() {
  local sum name
  while read -r sum name; do [ "$name" = "$1" ] && { echo "$sum"; return; }; done <<<"${known:-}"
  sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1
}
marked() { [ "$(cat "$op/$1" 2>/dev/null)" = "$2" ]; }
`

// values name the folders and versions of a goal. keep holds what must outlive a change of the goal: that the node was schedulable, and the verb that
// kubeadm began with. version names folders; target is the version as binaries report it.
func (g Goal) values() []value {
	return []value{
		{"state", StateFolder}, {"keep", StateFolder + "/keep"}, {"version", safe(g.Version.String())}, {"target", g.Version.String()},
		{"bin", g.folder()}, {"op", StateFolder + "/op/" + g.Operation()},
	}
}

// script renders a text with the values of the goal, and further ones.
func (g Goal) script(text script, values ...value) string {
	return render(text, append(g.values(), values...)...)
}

// run is a job with a text and its values.
func (g Goal) run(limit time.Duration, text script, values ...value) Run {
	return Run{Script: g.script(jobHeader+text, values...), Limit: limit}
}

// check is the check of a step.
func (g Goal) check(text script, values ...value) string {
	return g.script(checkHeader+text, values...)
}
