package linuxhost

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/settings"
)

// dropInName names the drop-in that Windlass writes. RKE2 and K3s read drop-ins in the order of
// their names, after the main file: this one has what the main file of a new machine would have, so
// it comes before those of people.
const dropInName = "00-windlass.yaml"

const dropInComment = "# Windlass writes this file. It takes the place of these keys in the file\n" +
	"# that the machine was made with.\n"

// dropInPath is where the drop-in is.
func (c RancherConfig) dropInPath() string { return c.Path + ".d/" + dropInName }

// hasDropIn reports whether the drop-in is there.
func (c RancherConfig) hasDropIn() bool {
	return slices.ContainsFunc(c.Files, func(f settings.RancherFile) bool {
		return f.Path == c.dropInPath()
	})
}

// componentSteps returns the step that sets the arguments of components; none where nothing in the
// main file has to change. It is the same step before and after it has run.
func componentSteps(g Goal, f Facts) ([]Step, *Failure) {
	c := f.Rancher
	if !g.DropRemoved {
		// Nobody knows which arguments people want.
		return nil, nil
	}
	lists := dropInLists(g, f)
	if len(lists) == 0 && !c.hasDropIn() {
		return nil, nil
	}
	if refused := refuseUnread(f); refused != nil {
		return nil, refused
	}
	if refused := refuseOthers(g, f, lists); refused != nil {
		return nil, refused
	}
	at, prefixes := c.dropInPath(), []string{path.Dir(c.Path)}
	if err := CheckPath(at, prefixes, g.folder()); err != nil {
		return nil, newFailure(FileRefused, ComponentArgs, "%v", err)
	}
	file := File{Path: at, Permissions: "0600", Content: []byte(formatDropIn(lists))}
	what := "no " + settings.KubeletArgKey
	if len(lists) > 0 {
		what = strings.Join(slices.Sorted(maps.Keys(lists)), ", ")
	}
	summary, files := "set "+what+" in "+at, []File{file}
	return []Step{writeStep(g, ComponentArgs, summary, files, prefixes, g.protected())}, nil
}

// formatDropIn returns the content of the drop-in.
func formatDropIn(lists map[string][]string) string {
	var b strings.Builder
	b.WriteString(dropInComment)
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		list, err := json.Marshal(lists[key])
		if err != nil {
			panic(err) // Strings can always be written.
		}
		fmt.Fprintf(&b, "%s: %s\n", key, list)
	}
	return b.String()
}

// dropInLists returns the keys that the drop-in has, with their arguments: those of the main file,
// with what the goal sets, and without what the version lacks. Keys that stay as they are in the
// main file are left out.
func dropInLists(g Goal, f Facts) map[string][]string {
	if !g.DropRemoved {
		return nil
	}
	base := f.Rancher.mainLists()
	lists := map[string][]string{}
	for _, key := range settings.RancherKeys() {
		if !f.ControlPlane && key != settings.KubeletArgKey && key != settings.ProxyArgKey {
			continue
		}
		before := textsOfWords(base[key])
		after := slices.DeleteFunc(slices.Clone(before), func(word string) bool {
			return lacksWord(g, settings.RancherComponent(key), word)
		})
		after = setWords(after, g.argumentsOf(key))
		if !slices.Equal(before, after) {
			lists[key] = after
		}
	}
	return lists
}

// mainLists are the arguments in the main file.
func (c RancherConfig) mainLists() settings.RancherLists {
	return settings.MergeRancher(slices.DeleteFunc(slices.Clone(c.Files),
		func(file settings.RancherFile) bool { return file.Path != c.Path }))
}

// lacksWord reports whether the goal's version accepts nothing of an argument, and nobody has
// accepted it by name.
func lacksWord(g Goal, c settings.Component, word string) bool {
	return settings.LacksArg(g.Version, g.Accepted, c, settings.ArgOf(word))
}

// argumentsOf returns the goal's arguments of a key.
func (g Goal) argumentsOf(key string) []Arg {
	var args []Arg
	for _, list := range g.Arguments {
		if list.Key == key {
			args = append(args, list.Args...)
		}
	}
	return args
}

// setWords sets arguments in a list of words. Words stay where they are if they give their argument
// the values that it is to have; the others of its name are dropped.
func setWords(words []string, args []Arg) []string {
	after := slices.Clone(words)
	for _, name := range namesOf(args) {
		want := valuesOf(args, name)
		if slices.Equal(valuesIn(after, name), want) {
			continue
		}
		after = slices.DeleteFunc(after, func(word string) bool {
			return settings.ArgOf(word).Name == name
		})
		for _, value := range want {
			after = append(after, name+"="+value)
		}
	}
	return after
}

// namesOf returns the names of arguments, each once, in their order.
func namesOf(args []Arg) []string {
	var names []string
	for _, arg := range args {
		if !slices.Contains(names, arg.Name) {
			names = append(names, arg.Name)
		}
	}
	return names
}

func valuesOf(args []Arg, name string) []string {
	var values []string
	for _, arg := range args {
		if arg.Name == name {
			values = append(values, arg.Value)
		}
	}
	return values
}

func valuesIn(words []string, name string) []string {
	var values []string
	for _, word := range words {
		if arg := settings.ArgOf(word); arg.Name == name {
			values = append(values, arg.Value)
		}
	}
	return values
}

func textsOfWords(words []settings.Word) []string {
	var texts []string
	for _, word := range words {
		texts = append(texts, word.Text)
	}
	return texts
}

// withDropIn returns the configuration as it is once the goal's drop-in is there.
func withDropIn(g Goal, f Facts) RancherConfig {
	c := f.Rancher
	lists := dropInLists(g, f)
	if len(lists) == 0 && (!g.DropRemoved || !c.hasDropIn()) {
		return c
	}
	content := map[string]any{}
	for key, words := range lists {
		list := make([]any, 0, len(words))
		for _, word := range words {
			list = append(list, word)
		}
		content[key] = list
	}
	at := c.dropInPath()
	files := slices.DeleteFunc(slices.Clone(c.Files), func(f settings.RancherFile) bool {
		return f.Path == at
	})
	where := slices.IndexFunc(files, func(f settings.RancherFile) bool {
		return f.Path != c.Path && f.Path > at
	})
	if where < 0 {
		where = len(files)
	}
	c.Files = slices.Insert(files, where, settings.RancherFile{Path: at, Content: content})
	return c
}

// refuseOthers refuses a host on which a component would not get what the drop-in sets, or would
// lose what people wrote beside the main file.
func refuseOthers(g Goal, f Facts, lists map[string][]string) *Failure {
	at := f.Rancher.dropInPath()
	for _, file := range f.Rancher.Files {
		if file.Path == f.Rancher.Path || file.Path >= at {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(file.Content)) {
			if _, sets := lists[strings.TrimSuffix(key, "+")]; sets {
				return newFailure(FileRefused, ComponentArgs, "%s on the host has %s, which %s "+
					"would replace. Nothing was changed. Fix: give the file a name that is sorted "+
					"after %s", file.Path, key, at, dropInName)
			}
		}
	}
	base, after := f.Rancher.mainLists(), withDropIn(g, f)
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		words, args := after.lists(f.Service)[key], g.argumentsOf(key)
		for _, name := range namesOf(args) {
			want := valuesOf(args, name)
			if slices.Equal(valuesIn(textsOfWords(base[key]), name), want) ||
				slices.Equal(valuesIn(textsOfWords(words), name), want) {
				continue
			}
			return newFailure(FileRefused, ComponentArgs, "%s on the host decides the argument %s "+
				"of %s, so another value than the configuration of the machine has would count. "+
				"Nothing was changed. Fix: remove %s there", after.decides(key, name, words), name,
				settings.RancherComponent(key), key)
		}
	}
	return nil
}

// decides returns what gives an argument beside the main file and the drop-in, or else takes it
// away.
func (c RancherConfig) decides(key, name string, words []settings.Word) string {
	isOwn := func(from string) bool { return from == c.Path || from == c.dropInPath() }
	for _, word := range slices.Backward(words) {
		if settings.ArgOf(word.Text).Name == name && !isOwn(word.From) {
			return word.From
		}
	}
	for _, file := range slices.Backward(c.Files) {
		if _, replaces := file.Content[key]; replaces && !isOwn(file.Path) {
			return file.Path
		}
	}
	return c.Path
}

// componentUses are the settings that the goal writes.
func componentUses(g Goal) []settings.Use {
	var uses []settings.Use
	for _, list := range g.Arguments {
		args := make([]settings.Arg, 0, len(list.Args))
		for _, arg := range list.Args {
			args = append(args, settings.Arg(arg))
		}
		place := settings.Place{Object: "the configuration of the machine", Path: list.Key}
		uses = append(uses, settings.FromArgs(place, settings.RancherComponent(list.Key), args)...)
	}
	return uses
}
