package hosts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/windlass-dev/windlass/internal/core/cover"
	core "github.com/windlass-dev/windlass/internal/core/hosts"
	"github.com/windlass-dev/windlass/internal/updater/internal/pick"
)

// configSpec is the spec of a KubeadmConfig, or the one in a KubeadmConfigTemplate.
type configSpec map[string]any

// The fields with commands.
const (
	beforeField = "preKubeadmCommands"
	afterField  = "postKubeadmCommands"
)

// readSpec reads the spec of a KubeadmConfig of the contract that is known here; nil for all other objects, and for none.
func readSpec(raw json.RawMessage, scope cover.Scope) (configSpec, error) {
	object, err := pick.Decode(raw)
	if err != nil || object == nil {
		return nil, err
	}
	kind, fields := "KubeadmConfig", []string{"spec"}
	if scope == cover.MachineSet {
		kind, fields = "KubeadmConfigTemplate", []string{"spec", "template", "spec"}
	}
	if object["apiVersion"] != bootstrapv1.GroupVersion.String() || object["kind"] != kind {
		return nil, nil
	}
	value, _ := pick.LookUp(object, fields)
	spec, ok := value.(map[string]any)
	if !ok {
		return configSpec{}, nil
	}
	return spec, nil
}

// decodeField decodes a field; the zero value where there is none. ok is false where there is more in it than is known here: who does not know what a field
// means cannot say that a host can take it over.
func decodeField[T any](spec configSpec, fields ...string) (value T, ok bool) {
	raw, found := pick.LookUp(spec, fields)
	if !found {
		return value, true
	}
	encoded, err := json.Marshal(raw)
	if err != nil {
		return value, false
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	return value, decoder.Decode(&value) == nil
}

// nodeConfiguration is the field by which kubeadm made the node: most join, the first one of a cluster inits.
func nodeConfiguration(spec configSpec) string {
	const join = "joinConfiguration"
	if joins, ok := spec[join].(map[string]any); ok && len(joins) > 0 || spec["initConfiguration"] == nil {
		return join
	}
	return "initConfiguration"
}

var (
	ownerSyntax       = regexp.MustCompile(`^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$`)
	permissionsSyntax = regexp.MustCompile(`^0?[1-7]?[4-7][0-7]{2}$`)
)

// maxContent bounds the content of a file, in bytes: what is compressed may be anything.
const maxContent = 256 << 10

// file gives an entry as the file that it makes on a host; ok is false for one that a running host cannot be given.
func (c coverage) file(f bootstrapv1.File) (made core.File, ok bool) {
	appends := f.Append != nil && *f.Append
	if appends || f.ContentFrom.IsDefined() || f.ContentFormat != "" && f.ContentFormat != bootstrapv1.FileContentFormatRaw {
		return core.File{}, false
	}
	if !c.isPath(f.Path) || f.Owner != "" && !ownerSyntax.MatchString(f.Owner) || f.Permissions != "" && !permissionsSyntax.MatchString(f.Permissions) {
		return core.File{}, false
	}
	content, ok := decodeContent(f.Content, f.Encoding)
	return core.File{Path: f.Path, Owner: f.Owner, Permissions: f.Permissions, Content: content}, ok
}

// decodeContent decodes content as cloud-init does.
func decodeContent(text string, encoding bootstrapv1.Encoding) (content []byte, ok bool) {
	if isTemplate(text) {
		return nil, false
	}
	content = []byte(text)
	if encoding == bootstrapv1.Base64 || encoding == bootstrapv1.GzipBase64 {
		var err error
		if content, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return nil, false
		}
	}
	switch encoding {
	case "", bootstrapv1.Base64:
		return content, len(content) <= maxContent
	case bootstrapv1.Gzip, bootstrapv1.GzipBase64:
		return unzip(content)
	}
	return nil, false
}

func unzip(compressed []byte) (content []byte, ok bool) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, false
	}
	content, err = io.ReadAll(io.LimitReader(reader, maxContent+1))
	return content, err == nil && len(content) <= maxContent
}

// foreign are folders and files that are somebody else's, or that nobody finds again: kubeadm's and the kubelet's own, etcd's data, ours, and what is gone
// after the next start of the host.
var foreign = []string{
	"/etc/kubernetes/pki", "/etc/kubernetes/manifests", "/etc/kubernetes/tmp",
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/pki",
	"/var/lib/etcd", core.StateFolder, "/run", "/var/run", "/tmp", "/dev", "/proc", "/sys",
}

// binaries are what an upgrade puts in its place by itself.
var binaries = []string{"kubeadm", "kubelet", "kubectl"}

// isPath reports whether a file at a path, or patches in it, can be given to a running host.
func (c coverage) isPath(p string) bool {
	if !path.IsAbs(p) || p == "/" || path.Clean(p) != p || isTemplate(p) || strings.ContainsFunc(p, unicode.IsControl) {
		return false
	}
	for _, folder := range foreign {
		if p == folder || strings.HasPrefix(p, folder+"/") {
			return false
		}
	}
	if path.Dir(p) == "/etc/kubernetes" && path.Ext(p) == ".conf" {
		return false
	}
	return path.Dir(p) != c.folder || !slices.Contains(binaries, path.Base(p))
}

var argName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]*$`)

// atRegistration are arguments that count when a node is registered, or that say where the kubelet keeps what makes it the node that it is. Changed on a
// running node, they have no effect, or make another node of it.
var atRegistration = []string{
	"bootstrap-kubeconfig", "cert-dir", "cloud-provider", "config", "config-dir", "container-runtime-endpoint", "hostname-override", "kubeconfig", "node-labels",
	"provider-id", "register-node", "register-schedulable", "register-with-taints", "root-dir",
}

// isArg reports whether a running kubelet can be given an argument. Its arguments are words of one line in a file that systemd reads.
func isArg(name, value string) bool {
	if !argName.MatchString(name) || slices.Contains(atRegistration, name) || isTemplate(value) {
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\"'`\\$", r)
	})
}
