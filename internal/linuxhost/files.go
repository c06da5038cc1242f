package linuxhost

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// filesSteps returns the step that writes the goal's files; none where there are none.
func filesSteps(g Goal) ([]Step, *Failure) {
	files := g.sortedFiles()
	if len(files) == 0 {
		return nil, nil
	}
	var paths []string
	for _, file := range files {
		if err := CheckPath(file.Path, g.prefixes(), g.folder()); err != nil {
			return nil, newFailure(FileRefused, WriteFiles, "%v", err)
		}
		paths = append(paths, file.Path)
	}
	return []Step{writeStep(g, WriteFiles, "write "+strings.Join(paths, ", "), files, g.prefixes(), g.protected())}, nil
}

// writeStep writes files. Each file is below one of the prefixes.
func writeStep(g Goal, name Name, summary string, files []File, prefixes, protected []string) Step {
	// A check needs no content. Files may be large and secret, and checks run often.
	var lines, checked strings.Builder
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, file := range files {
		permissions := cmp.Or(file.Permissions, "0644")
		owner, mode := cmp.Or(file.Owner, "root:root"), strings.TrimLeft(permissions, "0")
		fmt.Fprintln(&checked, encode(file.Path), owner, mode, digestOf(file.Content))
		fmt.Fprintln(&lines, encode(file.Path), encode(prefixOf(file.Path, prefixes)), owner,
			permissions, mode, digestOf(file.Content), "="+encode(string(file.Content)))
	}
	list := func(b *strings.Builder) value {
		return value{"FILES", strings.TrimSuffix(b.String(), "\n")}
	}
	return Step{
		Name: name, Summary: summary, Check: g.script("write-check", list(&checked)),
		Action: g.run(commandLimit, "write", list(&lines),
			value{"PROTECTED", strings.Join(protected, "\n")}),
	}
}

// kubeletFolder holds the file with kubeadm's arguments for the kubelet.
const kubeletFolder = "/var/lib/kubelet"

// argumentsSteps returns the step that sets the kubelet's arguments in the file that kubeadm made for them; none where there are none.
func argumentsSteps(g Goal, f Facts) ([]Step, *Failure) {
	names := dropped(g, f)
	if len(g.KubeletArgs) == 0 && len(names) == 0 {
		return nil, nil
	}
	content, err := setKubeletFlags(g, f)
	if err != nil {
		return nil, newFailure(FileRefused, KubeletArguments, "%s on the host: %v", kubeletFlagsFile, err)
	}
	for _, arg := range g.KubeletArgs {
		names = append(names, "--"+arg.Name)
	}
	slices.Sort(names)
	summary := "set the kubelet's arguments " + strings.Join(slices.Compact(names), ", ") + " in " + kubeletFlagsFile
	return []Step{writeStep(g, KubeletArguments, summary, []File{{Path: kubeletFlagsFile, Content: []byte(content)}}, []string{kubeletFolder}, nil)}, nil
}
