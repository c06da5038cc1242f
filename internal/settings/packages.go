package settings

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Packages is the kind of a version of kubeadm's and the kubelet's packages that the commands or files
// of a bootstrap config install. The Name of such a use is that version, or a minor if the newest
// patch of that is installed. A new machine joins with it, whatever the version of its Machine.
const Packages Kind = "packages"

// These find a version of packages, or a variable that has one.
const (
	number     = `v?(1\.\d+\.\d+)`
	minorOnly  = `v?(1\.\d+)`
	variable   = `["']?\$\{?([A-Za-z_]\w*)`
	pinned     = `\bkube(?:adm|let)(?:=|-)`
	repository = `core:/stable:/`
	// download is what precedes the version in the address of a released binary.
	download = `(?:dl\.k8s\.io|kubernetes-release)/(?:release/)?`
	// binary is the rest of an address that is not kubectl's alone.
	binary = `[^\s"']*/bin/[^\s"']*/(?:kube(?:adm|let)|\{[^\s"']*kube(?:adm|let)|` +
		`\$\{?\w+\}?(?:["'\s]|$))`
)

var (
	// versions have a patch, or a minor alone.
	versions = []*regexp.Regexp{
		regexp.MustCompile(pinned + number), regexp.MustCompile(download + number + binary),
		regexp.MustCompile(pinned + minorOnly + `\.?\*`),
		regexp.MustCompile(repository + minorOnly + `\b`),
	}
	// pinNames and repoNames are variables in the place of these versions.
	pinNames = []*regexp.Regexp{
		regexp.MustCompile(pinned + variable), regexp.MustCompile(download + variable + binary),
	}
	repoNames = regexp.MustCompile(repository + variable)
	// assignment is the start of one to a variable.
	assignment = regexp.MustCompile(`(?:^|[\s;&"'])([A-Za-z_]\w*)=`)
	// literal is a version as the value of a variable.
	literal = regexp.MustCompile(`^["']?` + minorOnly + `(\.\d+)?(?:\.\*)?` +
		`(?:-[\w.*-]+)?["']?(?:[\s;&]|$)`)
	used    = regexp.MustCompile(variable)
	remarks = regexp.MustCompile(`(?m)^\s*#.*$`)
)

// script is text that a machine runs or reads before kubeadm, and where it is.
type script struct {
	at   Place
	text string
}

// scriptsOf returns the commands that a KubeadmConfig runs before kubeadm, and its files.
func scriptsOf(p Place, spec map[string]any, files hostFiles) []script {
	var scripts []script
	for _, field := range []string{"bootCommands", "preKubeadmCommands"} {
		text := strings.Join(wordsOf(spec[field]), "\n")
		scripts = append(scripts, script{p.at(field), text})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, _ := files[name].decoded()
		scripts = append(scripts, script{files[name].at, string(content)})
	}
	for i := range scripts {
		scripts[i].text = remarks.ReplaceAllString(scripts[i].text, "")
	}
	return scripts
}

// packagesOf returns the versions of packages in scripts. A variable counts if its value reaches such a
// version, also by way of others.
func packagesOf(scripts []script) []Use {
	exact, minors := packageNames(scripts)
	var uses []Use
	for _, s := range scripts {
		found := map[string]bool{}
		for _, expression := range versions {
			addMatches(found, expression, s.text)
		}
		for _, set := range assignments(s.text) {
			value := literal.FindStringSubmatch(set.Value)
			switch {
			case value == nil:
			case exact[set.Name]:
				found[value[1]+value[2]] = true
			case minors[set.Name]:
				found[value[1]] = true
			}
		}
		for _, v := range slices.Sorted(maps.Keys(found)) {
			uses = append(uses, s.at.use(Kubeadm, Packages, "v"+v, ""))
		}
	}
	return uses
}

// packageNames returns the variables that are in the place of a version, and those of which a minor
// reaches one: the address of a repository, or another variable.
func packageNames(scripts []script) (exact, minors map[string]bool) {
	exact, minors = map[string]bool{}, map[string]bool{}
	for _, s := range scripts {
		for _, names := range pinNames {
			addMatches(exact, names, s.text)
		}
		addMatches(minors, repoNames, s.text)
	}
	sets := map[string][]string{}
	for _, s := range scripts {
		for _, set := range assignments(s.text) {
			sets[set.Name] = append(sets[set.Name], set.Value)
		}
	}
	// Each variable is followed once, however long a chain of them is.
	open := slices.Concat(slices.Collect(maps.Keys(exact)), slices.Collect(maps.Keys(minors)))
	for len(open) > 0 {
		name := open[len(open)-1]
		open = open[:len(open)-1]
		values := sets[name]
		delete(sets, name)
		for _, value := range values {
			reached := map[string]bool{}
			addMatches(reached, used, value)
			maps.Copy(minors, reached)
			open = slices.AppendSeq(open, maps.Keys(reached))
		}
	}
	return exact, minors
}

// assignments returns the variables that a text sets, each with its line up to the next one.
func assignments(text string) []Arg {
	var all []Arg
	for line := range strings.Lines(text) {
		found := assignment.FindAllStringSubmatchIndex(line, -1)
		for i, at := range found {
			end := len(line)
			if i+1 < len(found) {
				end = found[i+1][2]
			}
			all = append(all, Arg{Name: line[at[2]:at[3]], Value: line[at[1]:end]})
		}
	}
	return all
}

// addMatches adds what the first group of an expression matches in a text.
func addMatches(into map[string]bool, expression *regexp.Regexp, text string) {
	for _, match := range expression.FindAllStringSubmatch(text, -1) {
		into[match[1]] = true
	}
}

// examinePackages returns that packages are of another minor, or of another patch of the target's.
// Packages that the upgrade may replace are not judged: a class that has them by its version does.
func examinePackages(use Use, u Upgrade, minor version.Minor) (f Finding, ok bool) {
	f = Finding{Use: use, At: minor, Problem: Mismatched}
	if use.Passing {
		return f, false
	}
	if v, err := version.Parse(use.Name); err == nil {
		return f, v.Minor() != minor || minor == u.To.Minor() && !v.SamePatch(u.To)
	}
	of, err := version.ParseMinor(use.Name)
	return f, err == nil && of != minor
}
