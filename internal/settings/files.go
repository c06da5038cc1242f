package settings

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// hostFile is a file that a bootstrap config brings, and where in it.
type hostFile struct {
	at   Place
	spec map[string]any
}

// hostFiles are files by their path on the host.
type hostFiles map[string]hostFile

// filesOf returns the files of a config: a list of {path, content, encoding, append}, as the configs of
// kubeadm, RKE2 and K3s have it. The last one of a path counts. Those whose content is elsewhere, such
// as in a Secret, or is added to a file of the host are left out.
func filesOf(p Place, list any) hostFiles {
	files := hostFiles{}
	elements, _ := list.([]any)
	for _, element := range elements {
		spec, _ := element.(map[string]any)
		name, _ := spec["path"].(string)
		if name == "" {
			continue
		}
		at := p.at("files")
		at.Path += "[" + text.Bound(name, maxPathBytes) + "]"
		files[path.Clean(name)] = hostFile{at, spec}
	}
	return files
}

// maxPathBytes bounds what is shown of the path of a file, and maxFileBytes is what is read of it.
const (
	maxPathBytes = 200
	maxFileBytes = 1 << 20
)

// decoded returns the content of a file; ok is false if it cannot be read here.
func (f hostFile) decoded() (content []byte, ok bool) {
	encoded, _ := f.spec["content"].(string)
	encoding, _ := f.spec["encoding"].(string)
	content, ok = DecodeContent(encoded, encoding, maxFileBytes)
	if !ok || len(content) > maxFileBytes {
		return nil, false
	}
	return content, true
}

// document returns the first YAML document of a file; nil if it has none that can be read here.
func (f hostFile) document() map[string]any {
	if adds, _ := f.spec["append"].(bool); adds {
		return nil
	}
	decoded, ok := f.decoded()
	if !ok {
		return nil
	}
	decoded = bytes.TrimPrefix(bytes.TrimSpace(decoded), []byte("---\n"))
	decoded, _, _ = bytes.Cut(decoded, []byte("\n---"))
	var document map[string]any
	if untrusted.Object.UnmarshalYAML(decoded, &document) != nil {
		return nil // A template is one only on the host.
	}
	return document
}

// DecodeContent returns the content of a file of a bootstrap config, of which at most one byte more than
// limit is unzipped. encoding is empty, base64, gzip, or gzip+base64. ok is false if it is not
// encoded so.
func DecodeContent(encoded, encoding string, limit int) (content []byte, ok bool) {
	content = []byte(encoded)
	if encoding == "base64" || encoding == "gzip+base64" {
		var err error
		content, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(encoded), ""))
		if err != nil {
			return nil, false
		}
	}
	switch encoding {
	case "", "base64":
		return content, true
	case "gzip", "gzip+base64":
		return unzip(content, limit)
	}
	return nil, false
}

func unzip(compressed []byte, limit int) (content []byte, ok bool) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, false
	}
	content, err = io.ReadAll(io.LimitReader(reader, int64(limit)+1))
	return content, err == nil
}

// apisOf returns the APIs of the files that arguments of a component name. toHost returns the path on
// the host of a path that the component sees.
func (files hostFiles) apisOf(c Component, args []Arg, toHost func(string) string) []Use {
	var uses []Use
	for _, arg := range args {
		flag := flagName(arg.Name)
		if !slices.ContainsFunc(fileForms, func(f fileForm) bool {
			return f.flag != "" && f.component == c && f.flag == flag
		}) {
			continue
		}
		file, found := files[path.Clean(toHost(arg.Value))]
		if !found {
			continue
		}
		document := file.document()
		uses = append(uses, fileUses(file.at, c, flag, document)...)
		if flag == encryptionFlag {
			uses = append(uses, kmsUses(file.at, document)...)
		}
		if flag == admissionFlag {
			uses = append(uses, files.pluginAPIs(file.at, path.Dir(arg.Value), document, toHost)...)
		}
	}
	return uses
}

// pluginAPIs returns the APIs of what an AdmissionConfiguration holds for its plugins, and of the files
// that it refers to, relative to its own folder.
func (files hostFiles) pluginAPIs(
	p Place, folder string, config map[string]any, toHost func(string) string,
) []Use {
	var uses []Use
	plugins, _ := config["plugins"].([]any)
	for _, element := range plugins {
		plugin, _ := element.(map[string]any)
		inner, _ := plugin["configuration"].(map[string]any)
		uses = append(uses, fileUses(p, APIServer, "", inner)...)
		name, _ := plugin["path"].(string)
		if name == "" || inner != nil {
			continue
		}
		if !path.IsAbs(name) {
			name = path.Join(folder, name)
		}
		if file, found := files[path.Clean(toHost(name))]; found {
			uses = append(uses, fileUses(file.at, APIServer, "", file.document())...)
		}
	}
	return uses
}

// fileUses returns the API of a document, if it is of a group that the file has.
func fileUses(p Place, c Component, flag string, document map[string]any) []Use {
	version, _ := document["apiVersion"].(string)
	kind, _ := document["kind"].(string)
	name := version + "/" + kind
	if _, ok := formOf(c, flag, name); !ok {
		return nil
	}
	return []Use{p.use(c, API, name, "")}
}

// sameOnHost is for components that see the host's files under their own paths.
func sameOnHost(name string) string { return name }

// throughVolumes returns toHost for a component with the extraVolumes of kubeadm: the longest mountPath
// counts.
func throughVolumes(value any) func(string) string {
	volumes, _ := value.([]any)
	return func(name string) string {
		longest, host := "", name
		for _, element := range volumes {
			volume, _ := element.(map[string]any)
			from, _ := volume["hostPath"].(string)
			mount, _ := volume["mountPath"].(string)
			mount = path.Clean(mount)
			below, isBelow := strings.CutPrefix(path.Clean(name), mount)
			if isBelow && (below == "" || below[0] == '/') && len(mount) > len(longest) {
				longest, host = mount, path.Join(from, below)
			}
		}
		return host
	}
}
