package linuxhost

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/settings"
)

// The files with arguments for the kubelet that people write: packages for Debian read the first
// one, and those for Red Hat the second.
const (
	defaultsFile  = "/etc/default/kubelet"
	sysconfigFile = "/etc/sysconfig/kubelet"
)

// flagInWord finds a flag in a word, which may be the value of a variable.
var flagInWord = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*=)?(--[A-Za-z].*)$`)

// noValue is a word that is no value of the flag before it.
const noValue = "-"

// flagsIn returns the words of lines that are no comments, for settings.ArgsOf.
func flagsIn(lines []string) []string {
	var words []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		for word := range strings.FieldsSeq(strings.NewReplacer(`"`, "", "'", "").Replace(line)) {
			if flag := flagInWord.FindStringSubmatch(word); flag != nil {
				word = flag[1]
			} else if strings.HasPrefix(word, "$") {
				word = noValue // Nobody knows the variable.
			}
			words = append(words, word)
		}
		words = append(words, noValue)
	}
	return words
}

// flagsOfUnit returns the words of the command and of the variables in a unit with its drop-ins. An
// assignment of nothing removes those before it.
func flagsOfUnit(unit string) []string {
	var command, variables []string
	for line := range strings.Lines(strings.ReplaceAll(unit, "\\\n", " ")) {
		name, value, _ := strings.Cut(line, "=")
		into := map[string]*[]string{"ExecStart": &command, "Environment": &variables}[strings.TrimSpace(name)]
		switch value = strings.TrimSpace(value); {
		case into == nil:
		case value == "":
			*into = nil
		default:
			*into = append(*into, value)
		}
	}
	return flagsIn(append(variables, command...))
}

// argumentSource is a file, or what else gives the kubelet its arguments when it starts.
type argumentSource struct {
	object string
	words  []string
}

// kubeletSources returns where the kubelet gets its arguments from, once the goal has set its own
// in kubeadm's file, which is the first.
func kubeletSources(g Goal, f Facts) []argumentSource {
	own := argumentSource{object: kubeletFlagsFile}
	if content, err := setKubeletFlags(g, f); err == nil {
		own.words = flagWords(content)
	}
	sources := []argumentSource{own}
	for _, file := range []HostFile{
		{defaultsFile, f.Config.Defaults}, {sysconfigFile, f.Config.Sysconfig},
	} {
		// Nothing may read it.
		if f.Config.Units == "" || strings.Contains(f.Config.Units, file.Path) {
			sources = append(sources, argumentSource{file.Path, flagsInFile(file.Content)})
		}
	}
	for _, file := range f.Config.Environment {
		sources = append(sources, argumentSource{file.Path, flagsInFile(file.Content)})
	}
	return append(sources, argumentSource{"the unit of the kubelet", flagsOfUnit(f.Config.Units)})
}

// flagsInFile returns the words of a file with variables.
func flagsInFile(content string) []string {
	return flagsIn(strings.Split(strings.ReplaceAll(content, "\\\n", " "), "\n"))
}

// kubeletWords are the arguments of the kubelet in the order in which they count: those of the
// kubelet that runs, and then those that it does not have yet.
func kubeletWords(g Goal, f Facts) []string {
	var words []string
	if g.Distribution != Kubeadm {
		return textsOfWords(withDropIn(g, f).lists(f.Service)[settings.KubeletArgKey])
	}
	words = strings.Split(f.Config.Command, "\n")
	for _, source := range kubeletSources(g, f) {
		for _, word := range source.words {
			if !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
	}
	return words
}

// failsOnCgroupV1 returns what the last of these arguments tells about cgroups of version 1:
// whether the kubelet refuses them. told is false if none does.
func failsOnCgroupV1(words []string) (fails, told bool) {
	for _, word := range words {
		name, value, has := strings.Cut(word, "=")
		if !has {
			value = "true"
		}
		if strings.ReplaceAll(settings.ArgOf(name).Name, "_", "-") != "fail-cgroupv1" {
			continue
		}
		if parsed, err := strconv.ParseBool(value); err == nil {
			fails, told = parsed, true
		}
	}
	return fails, told
}
