package hosts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updaters"
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
	object, err := updaters.DecodeObject(raw)
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
	value, _ := updaters.LookUp(object, fields)
	spec, ok := value.(map[string]any)
	if !ok {
		return configSpec{}, nil
	}
	return spec, nil
}

// decodeField decodes a field; the zero value where there is none. ok is false where there is more in it than is known here: who does not know what a field
// means cannot say that a host can take it over.
func decodeField[T any](spec configSpec, fields ...string) (value T, ok bool) {
	raw, found := updaters.LookUp(spec, fields)
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
	ownerSyntax = regexp.MustCompile(`^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$`)
	// permissionsSyntax has no special bits, such as setuid, and nobody but the owner may write.
	permissionsSyntax = regexp.MustCompile(`^0?[4-7][0145]{2}$`)
)

const (
	// maxContent bounds the content of a file, in bytes: what is compressed may be anything.
	maxContent = 256 << 10
	// maxContents bounds the contents of all files of a config, in bytes. The API server does not,
	// because compressed content is small there. A Secret with bootstrap data has 1 MiB at most.
	maxContents = 1 << 20
)

// errContents says that the files of a config exceed maxContents.
var errContents = fmt.Errorf("the files of the bootstrap config have more than %d MiB together, "+
	"decoded. Fix: remove files, or make them smaller", maxContents>>20)

// fileReader reads the files of one config. It decodes no more than maxContents, and little more
// than maxContent of each file.
type fileReader struct {
	coverage
	// patches is the folder with patches for kubeadm; empty for none.
	patches string
	// left is how many bytes the files that follow may have.
	left int
}

func (c coverage) newFileReader(patches string) *fileReader {
	return &fileReader{coverage: c, patches: patches, left: maxContents}
}

// file returns an entry as the file that it makes on a host. The error says why a running host cannot be given the file, and names its path. It is errContents
// if the file and those before it have too many bytes.
func (r *fileReader) file(ctx context.Context, f bootstrapv1.File) (linuxhost.File, error) {
	if err := linuxhost.CheckPath(f.Path, r.prefixes, r.folder); err != nil {
		return linuxhost.File{}, fmt.Errorf("file %s", text.Bound(err.Error(), maxMessage))
	}
	why := whyNotWritten(f)
	var content []byte
	if why == "" {
		var ok bool
		content, ok = decodeContent(f.Content, f.Encoding, min(maxContent, r.left))
		if r.left -= len(content); r.left < 0 {
			return linuxhost.File{}, errContents
		}
		if !ok || len(content) > maxContent {
			why = "its content cannot be decoded, is too large, or is filled in by cloud-init"
		}
	}
	if why != "" {
		return linuxhost.File{}, fmt.Errorf("file %s: %s", text.Bound(f.Path, maxName), why)
	}
	if r.mustBeSafe(f.Path) {
		if err := kubeadmpatch.Check(ctx, path.Base(f.Path), content); err != nil {
			return linuxhost.File{}, fmt.Errorf("file %s: %w, or list the file's full path in allowedPathPrefixes of the Updater to allow any content", text.Bound(f.Path, maxName), err)
		}
	}
	return linuxhost.File{Path: f.Path, Owner: f.Owner, Permissions: f.Permissions, Content: content}, nil
}

// mustBeSafe reports whether kubeadm applies the file at a path as a patch whose content no prefix
// allows. If the host is a control plane against what its Machine is, linuxhost checks it.
func (r *fileReader) mustBeSafe(p string) bool {
	return linuxhost.IsPatch(r.patches, p) && !slices.Contains(r.prefixes, p) &&
		(!r.worker || kubeadmpatch.IsForWorkers(kubeadmpatch.Target(path.Base(p))))
}

// whyNotWritten says what of an entry, beside its path and its content, a running host cannot be given; empty for nothing.
func whyNotWritten(f bootstrapv1.File) string {
	switch {
	case f.Append != nil && *f.Append:
		return "it is appended to"
	case f.ContentFrom.IsDefined():
		return "its content is in a Secret"
	case f.ContentFormat != "" && f.ContentFormat != bootstrapv1.FileContentFormatRaw:
		return "its content is a template"
	case f.Owner != "" && !ownerSyntax.MatchString(f.Owner):
		return "its owner is not USER:GROUP, by names"
	case f.Permissions != "" && !permissionsSyntax.MatchString(f.Permissions):
		return "its permissions are not octal, or have no read bit for the owner"
	}
	return ""
}

// maxName bounds what a message repeats of a configuration, in bytes.
const maxName = 120

// decodeContent decodes content as cloud-init does. It decompresses limit bytes and one more at most,
// and returns them also where ok is false.
func decodeContent(encoded string, encoding bootstrapv1.Encoding, limit int) (content []byte, ok bool) {
	if isTemplate(encoded) {
		return nil, false
	}
	return settings.DecodeContent(encoded, string(encoding), limit)
}

// safeArgs are the arguments that a running kubelet can be given: numbers, durations, sizes and policies. All others are not covered. They name a file or a
// folder that the kubelet reads or runs as root (config, kubeconfig, pod-manifest-path, manifest-url, volume-plugin-dir, image-credential-provider-bin-dir),
// decide who may call the kubelet (anonymous-auth, authorization-mode, client-ca-file), count only when a node is registered (node-labels,
// register-with-taints), or make another node of it (hostname-override, provider-id, root-dir). Source: cmd/kubelet/app/options of Kubernetes v1.36.
var safeArgs = []string{
	"container-log-max-files", "container-log-max-size", "cpu-cfs-quota", "cpu-cfs-quota-period", "cpu-manager-policy", "cpu-manager-policy-options",
	"cpu-manager-reconcile-period", "enable-controller-attach-detach", "enforce-node-allocatable", "event-burst", "event-qps", "eviction-hard",
	"eviction-max-pod-grace-period", "eviction-minimum-reclaim", "eviction-pressure-transition-period", "eviction-soft", "eviction-soft-grace-period",
	"fail-swap-on", "feature-gates", "image-gc-high-threshold", "image-gc-low-threshold", "kube-api-burst", "kube-api-qps", "kube-reserved",
	"local-storage-capacity-isolation", "max-open-files", "max-pods", "memory-manager-policy", "minimum-image-ttl-duration", "node-ip",
	"node-status-max-images", "node-status-update-frequency", "pod-max-pids", "pods-per-core", "protect-kernel-defaults", "qos-reserved",
	"registry-burst", "registry-qps", "reserved-cpus", "reserved-memory", "rotate-certificates", "runtime-request-timeout", "seccomp-default",
	"serialize-image-pulls", "streaming-connection-idle-timeout", "sync-frequency", "system-reserved", "topology-manager-policy",
	"topology-manager-policy-options", "topology-manager-scope", "v", "vmodule", "volume-stats-agg-period",
}

// isArg reports whether a running kubelet can be given an argument. Its arguments are words of one line in a file that systemd reads.
func isArg(name, value string) bool {
	return slices.Contains(safeArgs, name) && !isTemplate(value) && argValue.MatchString(value)
}

// argValue has printable ASCII without blanks, quotes, backslashes and $.
var argValue = regexp.MustCompile(`^[!#%&()*+,./0-9:;<=>?@A-Z\[\]^_a-z{|}~-]*$`)
