package linuxhost

import (
	"embed"
	"regexp"
	"strings"
	"time"
)

// The folder scripts holds one file for each script, named after a step or after what it does. A
// file lib-*.sh has what several scripts share.
//
//go:embed scripts/*.sh
var files embed.FS

// script names a file in the folder scripts, without its ending. It is always a constant. Values
// reach a script as variables in upper case, which render assigns. A value is never parsed by bash,
// and never becomes a part of a program for sed or awk.
type script string

// sourced matches a line that sources a file. On a host there are no files: render inserts the text.
var sourced = regexp.MustCompile(`(?m)^source ([a-z-]+)\.sh\n`)

// text returns a script with what it sources.
func (s script) text() string {
	content, err := files.ReadFile("scripts/" + string(s) + ".sh")
	if err != nil {
		panic(err) // The names are constants, and a test renders each.
	}
	return sourced.ReplaceAllStringFunc(string(content), func(line string) string {
		return script(sourced.FindStringSubmatch(line)[1]).text()
	})
}

// value is a variable of a script.
type value struct{ name, content string }

// render returns the document that bash runs: one assignment for each value, in single quotes, and
// then the script. The variables are not exported, so what a script runs does not see them. A
// document with a NUL byte does not run: package transport refuses it.
func render(s script, values ...value) string {
	var b strings.Builder
	for _, v := range values {
		b.WriteString(v.assignment())
	}
	b.WriteString(s.text())
	return b.String()
}

func (v value) assignment() string {
	return v.name + "='" + strings.ReplaceAll(v.content, "'", `'\''`) + "'\n"
}

// StateFolder is where Windlass keeps, on a host, the job that runs, what was downloaded, and the
// log.
const StateFolder = "/var/lib/windlass"

// script renders a script with the values of the goal, and further ones. KEEP is a folder for what
// must outlive a change of the goal: that the node was schedulable, and what kubeadm began. OP is
// the folder of the operation. VERSION names folders; TARGET is the version as binaries report it.
func (g Goal) script(s script, values ...value) string {
	return render(s, append([]value{
		{"STATE", StateFolder}, {"KEEP", StateFolder + "/keep"}, {"OP", StateFolder + "/op/" + g.Operation()},
		{"DISTRIBUTION", string(g.Distribution)}, {"BIN", g.folder()},
		{"VERSION", safe(g.Version.String())}, {"TARGET", g.Version.String()},
	}, values...)...)
}

// run is a job.
func (g Goal) run(limit time.Duration, s script, values ...value) Run {
	return Run{Script: g.script(s, values...), Limit: limit}
}
