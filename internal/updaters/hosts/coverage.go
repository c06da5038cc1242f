package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

// coverage decides what of a change a running host can take over. A list counts as a whole: it is covered only if all that differs in it is.
type coverage struct {
	distribution linuxhost.Distribution
	// folder is where binaries stand on the host.
	folder string
	// prefixes are the paths at or below which files may be written.
	prefixes []string
	// repeatable are the commands that may be run again.
	repeatable []string
	// accepted are names of settings that a version may lack.
	accepted []string
	// worker is set for a Machine that is no control plane: kubeadm applies no patches of static pods and
	// of CoreDNS there.
	worker bool
	// newVersion is set for a Machine that gets another version.
	newVersion bool
}

const versionPath = "/spec/version"

// claims returns the fields, by paths of Machine scope, that an update brings to what is desired, and what people should know of the others.
func (c coverage) claims(
	ctx context.Context, scope cover.Scope, current, desired cover.Objects,
) (claims []cover.Pointer, notes []string, err error) {
	ok, err := coversVersion(scope, current, desired)
	if err != nil {
		return nil, nil, err
	}
	if ok {
		claims = append(claims, cover.Pointer{Part: cover.PartMachine, Path: versionPath})
	}
	if c.worker, err = isWorker(desired.Machine); err != nil {
		return nil, nil, err
	}
	var paths []string
	if c.distribution == linuxhost.Kubeadm {
		paths, notes, ok, err = c.kubeadmClaims(ctx, scope, current, desired)
	} else {
		paths, notes, ok, err = c.rancherClaims(scope, current, desired)
	}
	if err != nil || !ok {
		return nil, notes, err
	}
	return append(claims, inBootstrap(paths)...), notes, nil
}

// kubeadmClaims returns the paths of a KubeadmConfig that an update brings to what is desired, and
// what people should know of the others. ok is false if UpdateMachine would refuse the desired
// config.
func (c coverage) kubeadmClaims(
	ctx context.Context, scope cover.Scope, current, desired cover.Objects,
) (paths, notes []string, ok bool, err error) {
	from, to, err := readSpecs(scope, current, desired)
	switch {
	case err != nil:
		return nil, nil, false, err
	case to == nil:
		if err := checkNoConfig(desired.Bootstrap, ""); err != nil {
			return nil, []string{err.Error()}, false, nil //nolint:nilerr // The error is the note.
		}
		return nil, nil, true, nil
	case from == nil:
		return nil, nil, true, nil
	}
	v, err := desiredVersion(scope, desired)
	if err != nil {
		return nil, nil, false, err
	}
	was, err := desiredVersion(scope, current)
	if err != nil {
		return nil, nil, false, err
	}
	c.newVersion = !was.IsZero() && was != v
	if _, err := c.withConfig(ctx, linuxhost.Goal{Version: v}, to); err != nil {
		if ctx.Err() != nil {
			return nil, nil, false, err
		}
		return nil, []string{err.Error()}, false, nil
	}
	paths, notes = c.coveredConfig(ctx, v, from, to)
	// A file that was not read in time does not make the change uncovered.
	return paths, notes, true, ctx.Err()
}

// inBootstrap returns pointers to paths of the bootstrap config.
func inBootstrap(paths []string) []cover.Pointer {
	pointers := make([]cover.Pointer, 0, len(paths))
	for _, path := range paths {
		pointers = append(pointers, cover.Pointer{Part: cover.PartBootstrap, Path: path})
	}
	return pointers
}

// isWorker reports whether a Machine or MachineSet has no label of a control plane.
func isWorker(raw json.RawMessage) (bool, error) {
	object, err := updaters.DecodeObject(raw)
	if err != nil {
		return false, fmt.Errorf("the machine: %w", err)
	}
	_, controlPlane := updaters.LookUp(object,
		[]string{"metadata", "labels", clusterv1.MachineControlPlaneLabel})
	return !controlPlane, nil
}

// readSpecs returns the specs of the current and the desired KubeadmConfig, nil where there is none.
func readSpecs(scope cover.Scope, current, desired cover.Objects) (from, to configSpec, err error) {
	if from, err = readSpec(current.Bootstrap, scope); err != nil {
		return nil, nil, fmt.Errorf("the current bootstrap config: %w", err)
	}
	if to, err = readSpec(desired.Bootstrap, scope); err != nil {
		return nil, nil, fmt.Errorf("the desired bootstrap config: %w", err)
	}
	return from, to, nil
}

// coversVersion refuses what no host can do: to go back. How many minors are too many is for the limit of the Updater.
func coversVersion(scope cover.Scope, current, desired cover.Objects) (bool, error) {
	fields, err := updaters.Fields(versionPath, scope)
	if err != nil {
		return false, err
	}
	var versions [2]version.Version
	for i, raw := range [][]byte{current.Machine, desired.Machine} {
		object, err := updaters.DecodeObject(raw)
		if err != nil {
			return false, fmt.Errorf("the machine: %w", err)
		}
		value, _ := updaters.LookUp(object, fields)
		text, _ := value.(string)
		if versions[i], err = version.Parse(text); err != nil && (i == 1 || text != "") {
			return false, nil
		}
	}
	from, to := versions[0], versions[1]
	return from.IsZero() || version.Compare(to, from) != version.Less, nil
}

// coveredConfig returns the paths in a KubeadmConfig that are covered, whether or not they differ, and why files are not.
func (c coverage) coveredConfig(
	ctx context.Context, v version.Version, from, to configSpec,
) (paths, notes []string) {
	add := func(path string, covered bool) {
		if covered {
			paths = append(paths, path)
		}
	}
	configuration := nodeConfiguration(to)
	folder, knownFolder := decodeField[string](to, configuration, "patches", "directory")
	filesFrom, ok := decodeField[[]bootstrapv1.File](from, "files")
	filesTo, okTo := decodeField[[]bootstrapv1.File](to, "files")
	if ok && okTo {
		err := c.newFileReader(folder).checkFiles(ctx, filesFrom, filesTo)
		add("/spec/files", err == nil)
		if err != nil {
			notes = append(notes, err.Error())
		}
	}
	for _, list := range []string{beforeField, afterField} {
		commandsFrom, ok := decodeField[[]string](from, list)
		commandsTo, okTo := decodeField[[]string](to, list)
		add("/spec/"+list, ok && okTo && c.coversCommands(commandsFrom, commandsTo))
	}
	args := []string{configuration, "nodeRegistration", "kubeletExtraArgs"}
	add("/spec/"+strings.Join(args, "/"), coversKubeletArgs(c.lacksIn(v), from, to, args))
	if c.newVersion {
		paths = append(paths, coveredComponents(c.lacksIn(v), from, to)...)
	}
	add("/spec/"+configuration+"/patches/directory", knownFolder && hasPatches(folder, filesTo))
	add("/spec/clusterConfiguration/featureGates", coversGates(from, to))
	add("/spec/clusterConfiguration", dropsLocalMode(from, to))
	return paths, notes
}

// coversKubeletArgs reports whether the arguments of the kubelet, which are at fields, are covered.
func coversKubeletArgs(lacks lacks, from, to configSpec, fields []string) bool {
	argsFrom, ok := decodeField[[]bootstrapv1.Arg](from, fields...)
	argsTo, okTo := decodeField[[]bootstrapv1.Arg](to, fields...)
	return (len(argsTo) > 0 || removesOnly(from, to, fields)) &&
		ok && okTo && coversArgs(lacks, argsFrom, argsTo)
}

// coversGates reports whether the feature gates of kubeadm differ in nothing but the local mode of kubelets, which an upgrade of a control plane host
// brings about itself. The gate cannot be switched off on a host that runs.
func coversGates(from, to configSpec) bool {
	gatesFrom, ok := decodeField[map[string]bool](from, "clusterConfiguration", "featureGates")
	gatesTo, okTo := decodeField[map[string]bool](to, "clusterConfiguration", "featureGates")
	// A claim on a field that desired does not have would take away what is around it.
	if !ok || !okTo || to["clusterConfiguration"] == nil {
		return false
	}
	if on, set := gatesTo[cover.LocalModeGate]; set && !on {
		return false
	}
	without := func(gates map[string]bool) map[string]bool {
		left := maps.Clone(gates)
		delete(left, cover.LocalModeGate)
		return left
	}
	return maps.Equal(without(gatesFrom), without(gatesTo))
}

// dropsLocalMode reports whether desired has no cluster's configuration, and the current one has
// nothing but the local mode of kubelets: from v1.36 on, that is what KubeadmControlPlane makes of a
// configuration that is empty.
func dropsLocalMode(from, to configSpec) bool {
	gates, ok := decodeField[map[string]bool](from, "clusterConfiguration", "featureGates")
	if _, local := gates[cover.LocalModeGate]; !ok || !local || len(gates) > 1 {
		return false
	}
	configuration, _ := from["clusterConfiguration"].(map[string]any)
	return len(configuration) == 1 && to["clusterConfiguration"] == nil
}

// checkFiles returns nil where all that differs between two lists of files can be done: files that are added or changed, one entry for each path. The error
// names a path that cannot be.
func (r *fileReader) checkFiles(ctx context.Context, from, to []bootstrapv1.File) error {
	before, after := byPath(from), byPath(to)
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if len(after[path]) == 0 {
			// A host cannot tell what else has come to count on the file.
			return fmt.Errorf("file %s is removed, which no running host does", text.Bound(path, maxName))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		entries := after[path]
		if reflect.DeepEqual(before[path], entries) {
			continue
		}
		if len(before[path]) > 1 {
			return twoEntries(path)
		}
		if _, err := r.onlyFile(ctx, entries); err != nil {
			return err
		}
	}
	return nil
}

// onlyFile is file for all entries of a path, which must be one.
func (r *fileReader) onlyFile(ctx context.Context, entries []bootstrapv1.File) (linuxhost.File, error) {
	if len(entries) > 1 {
		return linuxhost.File{}, twoEntries(entries[0].Path)
	}
	return r.file(ctx, entries[0])
}

func twoEntries(path string) error {
	return fmt.Errorf("file %s has two entries", text.Bound(path, maxName))
}

func byPath(files []bootstrapv1.File) map[string][]bootstrapv1.File {
	paths := map[string][]bootstrapv1.File{}
	for _, file := range files {
		paths[file.Path] = append(paths[file.Path], file)
	}
	return paths
}

// coversCommands reports whether all commands that are added may be run again. One that is removed has run already, which nothing can undo: a new machine
// would just not run it.
func (c coverage) coversCommands(from, to []string) bool {
	left := slices.Clone(from)
	for _, command := range to {
		if i := slices.Index(left, command); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		if !c.isRepeatable(command) {
			return false
		}
	}
	return true
}

func (c coverage) isRepeatable(command string) bool {
	return slices.Contains(c.repeatable, command) && !isTemplate(command)
}

// coversArgs reports whether all that differs between two lists of arguments can be done: arguments
// that are added, or have another value. One that is removed can be only if the version lacks it: a
// host cannot tell which other arguments are kubeadm's own.
func coversArgs(lacks lacks, from, to []bootstrapv1.Arg) bool {
	before, ok := argsByName(from)
	after, okTo := argsByName(to)
	if !ok || !okTo {
		return false
	}
	for name, value := range before {
		arg := settings.Arg{Name: name, Value: value}
		if _, kept := after[name]; !kept && !lacks(settings.Kubelet, arg) {
			return false
		}
	}
	for name, value := range after {
		known, same := before[name]
		if same && known == value {
			continue
		}
		if !isArg(name, value) {
			return false
		}
	}
	return true
}

func argsByName(args []bootstrapv1.Arg) (values map[string]string, unique bool) {
	values = map[string]string{}
	for _, arg := range args {
		if _, known := values[arg.Name]; known || arg.Value == nil {
			return nil, false
		}
		values[arg.Name] = *arg.Value
	}
	return values, true
}

// hasPatches reports whether kubeadm finds a patch in a folder that the host did not have.
func hasPatches(folder string, files []bootstrapv1.File) bool {
	isPatch := func(f bootstrapv1.File) bool { return linuxhost.IsPatch(folder, f.Path) }
	return slices.ContainsFunc(files, isPatch)
}

// isTemplate reports whether cloud-init would fill a text in: its values are known on the host only, when it is made.
func isTemplate(value string) bool {
	return strings.Contains(value, "{{") || strings.Contains(value, "{%") || strings.Contains(value, "{#")
}
