package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NameAsPlugin makes root call itself "kubectl NAME" where program, the path that started this process,
// is that of a kubectl plugin, kubectl-NAME. Call it when root has its verbs.
//
// Usage lines follow from the annotation. Help texts and follow-up commands are written with NAME, some
// of them by other processes into objects, so that whatever is printed is changed on its way out: "NAME
// VERB" to "kubectl NAME VERB". processes are the verbs that name a running process in messages, and
// stay. args are the arguments of this process: what programs read (-o json, -o yaml) is not changed.
func NameAsPlugin(root *cobra.Command, program string, args []string, processes ...string) {
	name := root.Name()
	if strings.TrimSuffix(filepath.Base(program), ".exe") != "kubectl-"+name {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + name}
	named := newRenamer(name, verbs(root, processes))
	if !FindFormat(args).Structured() {
		root.SetOut(&renamed{Writer: os.Stdout, renamer: named})
	}
	root.SetErr(&renamed{Writer: os.Stderr, renamer: named})
}

// verbs returns the names of the commands of root, without some.
func verbs(root *cobra.Command, without []string) []string {
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(without, n) })
}

// renamer changes "NAME VERB" to "kubectl NAME VERB", unless it is that already.
type renamer struct {
	commands *regexp.Regexp
}

func newRenamer(name string, verbs []string) renamer {
	pattern := `(^|[^\w/.-])(?:kubectl )?(` + name + ` (?:` + strings.Join(verbs, "|") + `)\b)`
	return renamer{commands: regexp.MustCompile(pattern)}
}

func (r renamer) rename(text []byte) []byte {
	return r.commands.ReplaceAll(text, []byte("${1}kubectl $2"))
}

// renamed writes what renamer makes of each text. No text may end within a command.
type renamed struct {
	io.Writer
	renamer renamer
}

func (w *renamed) Write(text []byte) (int, error) {
	if _, err := w.Writer.Write(w.renamer.rename(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
