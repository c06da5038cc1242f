package hosts

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
			return nil, &Failure{Reason: FileRefused, Step: WriteFiles, Message: err.Error()}
		}
		paths = append(paths, file.Path)
	}
	return []Step{writeStep(g, WriteFiles, "write "+strings.Join(paths, ", "), files, g.prefixes(), g.protected())}, nil
}

// writeStep writes files: beside, synced, renamed. It leaves those alone that are as they should be. Each file is below one of the prefixes.
func writeStep(g Goal, name Name, summary string, files []File, prefixes, protected []string) Step {
	var lines strings.Builder
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, file := range files {
		permissions := cmp.Or(file.Permissions, "0644")
		fmt.Fprintln(&lines, encode(file.Path), encode(prefixOf(file.Path, prefixes)), cmp.Or(file.Owner, "root:root"), permissions,
			strings.TrimLeft(permissions, "0"), digestOf(file.Content), "="+base64.StdEncoding.EncodeToString(file.Content))
	}
	values := []value{{"files", strings.TrimSuffix(lines.String(), "\n")}, {"protected", strings.Join(protected, "\n")}}
	return Step{
		Name: name, Summary: summary, Check: g.check(filesDiffer, values...), Action: g.run(commandLimit, enterFolder+writeFiles, values...),
	}
}

// filesDiffer prints the first file that is not as it should be. The content has an = before its base64, which is empty for an empty file.
const filesDiffer script = `while read -r path _ owner _ mode sum _; do
  path=$(base64 -d <<<"$path")
  [ ! -L "$path" ] && [ "$(digest "$path")" = "$sum" ] && [ "$(stat -c %U:%G:%a "$path")" = "$owner:$mode" ] || { echo "$path differs"; exit 1; }
done <<<"$files"
`

// enterFolder defines enter, which goes to the folder of a file and creates the folders that are missing.
//
// Nobody but root may be able to change what a path leads to: each folder on the way belongs to root, and only root can write to it. So nobody can
// replace a folder between the check and the write. No folder below the allowed prefix is a symbolic link. A link above the prefix was made by root, and
// where it leads must not be protected.
const enterFolder script = `trusted() {
  local uid gid mode
  read -r uid gid mode < <(stat -c '%u %g %a' "$1")
  if [ "$uid" != 0 ] || [ $((0$mode & 0002)) != 0 ] || { [ "$gid" != 0 ] && [ $((0$mode & 0020)) != 0 ]; }; then
    fail ` + script(FileRefused) + ` "$2 cannot be written: not only root can write to the folder $1"
  fi
}
enter() {
  local path=$1 below=$2 rest=${1#/} walked='' part real line
  cd /
  trusted / "$path"
  while [ "${rest#*/}" != "$rest" ]; do
    part=${rest%%/*} rest=${rest#*/}
    walked=$walked/$part
    if [ -L "./$part" ]; then
      [[ $below == "$walked" || $below == "$walked/"* ]] || fail ` + script(FileRefused) + ` "$path cannot be written: $walked is a symbolic link"
    elif [ ! -e "./$part" ]; then
      mkdir "./$part"
    elif [ ! -d "./$part" ]; then
      fail ` + script(FileRefused) + ` "$path cannot be written: $walked is not a folder"
    fi
    cd -P "./$part"
    trusted . "$path"
  done
  real=$(pwd -P)
  while trusted "$real" "$path"; [ "$real" != / ]; do real=$(dirname "$real"); done
  real=$(pwd -P)/$rest
  while read -r line; do
    [ -n "$line" ] || continue
    # shellcheck disable=SC2053 # The line is a pattern.
    [[ ${real,,} != ${line,,} && ${real,,} != "${line,,}"/* ]] || fail ` + script(FileRefused) + ` "$path cannot be written: it leads to $real"
  done <<<"$3"
}
`

const writeFiles script = `while read -r path below owner permissions mode sum content; do
  path=$(base64 -d <<<"$path") below=$(base64 -d <<<"$below")
  enter "$path" "$below" "$protected"
  name=./${path##*/}
  if [ -L "$name" ] || { [ -e "$name" ] && [ ! -f "$name" ]; }; then fail ` + script(FileRefused) + ` "$path cannot be written: it is not a regular file"; fi
  if [ "$(digest "$name")" = "$sum" ] && [ "$(stat -c %U:%G:%a "$name")" = "$owner:$mode" ]; then continue; fi
  new=./.windlass-new
  rm -f "$new"
  (umask 077; base64 -d <<<"${content#=}" >"$new")
  chown "$owner" "$new"
  chmod "$permissions" "$new"
  sync "$new"
  mv -T "$new" "$name"
  sync .
done <<<"$files"
cd /
`

// kubeletFolder holds the file with kubeadm's arguments for the kubelet.
const kubeletFolder = "/var/lib/kubelet"

// argumentsSteps returns the step that sets the kubelet's arguments in the file that kubeadm made for them; none where there are none.
func argumentsSteps(g Goal, f Facts) ([]Step, *Failure) {
	if len(g.KubeletArgs) == 0 {
		return nil, nil
	}
	content, err := ComputeKubeletFlags(f.KubeletFlags, g.KubeletArgs)
	if err != nil {
		return nil, &Failure{Reason: FileRefused, Step: KubeletArguments, Message: fmt.Sprintf("%s on the host: %v", kubeletFlagsFile, err)}
	}
	var names []string
	for _, arg := range g.KubeletArgs {
		names = append(names, "--"+arg.Name)
	}
	summary := "set the kubelet's arguments " + strings.Join(slices.Compact(names), ", ") + " in " + kubeletFlagsFile
	return []Step{writeStep(g, KubeletArguments, summary, []File{{Path: kubeletFlagsFile, Content: []byte(content)}}, []string{kubeletFolder}, nil)}, nil
}
