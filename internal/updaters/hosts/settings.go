package hosts

import (
	"errors"
	"maps"
	"slices"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

// desiredVersion returns the version of a desired Machine or MachineSet; zero if it has none that can
// be read.
func desiredVersion(scope cover.Scope, desired cover.Objects) (version.Version, error) {
	fields, err := updaters.Fields(versionPath, scope)
	if err != nil {
		return version.Version{}, err //nolint:wrapcheck // The path is a constant.
	}
	object, err := updaters.DecodeObject(desired.Machine)
	if err != nil {
		return version.Version{}, err //nolint:wrapcheck // coversVersion has decoded it.
	}
	value, _ := updaters.LookUp(object, fields)
	text, _ := value.(string)
	v, err := version.Parse(text)
	if err != nil {
		return version.Version{}, nil //nolint:nilerr // coversVersion does not cover it.
	}
	return v, nil
}

// refuseSettings returns a *setupError if a config has a setting that the version lacks: the
// component would not start. Only what the host's own node is made with counts.
func (c coverage) refuseSettings(v version.Version, spec configSpec) error {
	if v.IsZero() {
		return nil
	}
	counts := map[string]any{
		"clusterConfiguration": spec["clusterConfiguration"], "files": spec["files"],
	}
	node := nodeConfiguration(spec)
	counts[node] = spec[node]
	uses := settings.FromKubeadm(settings.Place{Object: "the bootstrap config", Path: "spec"}, counts)
	found := settings.Check(settings.Upgrade{To: v}, uses)
	found = settings.Errors(settings.Accepted(found, c.accepted))
	if len(found) == 0 {
		return nil
	}
	return &setupError{string(linuxhost.RemovedSetting), errors.New(settings.Describe(found))}
}

// unknownVersion says that nobody knows which settings the desired version has, where that is so.
func unknownVersion(scope cover.Scope, desired cover.Objects) []string {
	v, err := desiredVersion(scope, desired)
	if err != nil || v.IsZero() {
		return nil // It is not covered.
	}
	var warnings []string
	for _, gap := range (settings.Upgrade{To: v}).Gaps() {
		warnings = append(warnings, gap.String())
	}
	return warnings
}

// lacks reports whether the desired version accepts nothing of an argument of a component, and nobody
// has accepted it by name.
type lacks func(settings.Component, settings.Arg) bool

// lacksIn returns lacks for a version.
func (c coverage) lacksIn(v version.Version) lacks {
	return func(of settings.Component, arg settings.Arg) bool {
		return settings.LacksArg(v, c.accepted, of, arg)
	}
}

// coveredComponents returns the paths of the arguments of a control plane's components from which
// nothing is removed but what the version lacks. kubeadm writes the manifests of another version by
// the configuration in the cluster, which KubeadmControlPlane has changed before. At the same version
// it does not run.
func coveredComponents(lacks lacks, from, to configSpec) []string {
	var paths []string
	for _, of := range []struct {
		field     string
		component settings.Component
	}{
		{"apiServer", settings.APIServer}, {"controllerManager", settings.ControllerManager},
		{"scheduler", settings.Scheduler},
	} {
		fields := []string{"clusterConfiguration", of.field, "extraArgs"}
		argsFrom, ok := decodeField[[]bootstrapv1.Arg](from, fields...)
		argsTo, okTo := decodeField[[]bootstrapv1.Arg](to, fields...)
		if ok && okTo && removesLacking(lacks, of.component, argsFrom, argsTo) &&
			(len(argsTo) > 0 || removesOnly(from, to, fields)) {
			paths = append(paths, "/spec/"+strings.Join(fields, "/"))
		}
	}
	return paths
}

// removesLacking reports whether two lists of arguments differ, and in nothing but what a version
// lacks: arguments, and feature gates in the value of one.
func removesLacking(lacks lacks, c settings.Component, from, to []bootstrapv1.Arg) bool {
	before, ok := argsByName(from)
	after, okTo := argsByName(to)
	if !ok || !okTo || maps.Equal(before, after) {
		return false
	}
	for name, value := range after {
		if known, kept := before[name]; !kept || known != value && !dropsGates(lacks, c, name, known, value) {
			return false
		}
	}
	for name, value := range before {
		if _, kept := after[name]; !kept && !lacks(c, settings.Arg{Name: name, Value: value}) {
			return false
		}
	}
	return true
}

// dropsGates reports whether an argument has feature gates, and loses only those that a version
// lacks.
func dropsGates(lacks lacks, c settings.Component, name, before, after string) bool {
	if name != "feature-gates" {
		return false
	}
	left := settings.SplitGates(after)
	for _, gate := range settings.SplitGates(before) {
		at := slices.Index(left, gate)
		switch {
		case at >= 0:
			left = slices.Delete(left, at, at+1)
		case !lacks(c, settings.Arg{Name: name, Value: gate.Name + "=" + gate.Value}):
			return false
		}
	}
	return len(left) == 0
}

// removesOnly reports whether a claim on a field that desired may not have takes away nothing but
// that field from the current config.
func removesOnly(from, to configSpec, fields []string) bool {
	current, desired := map[string]any(from), map[string]any(to)
	for i, field := range fields {
		wanted, found := desired[field]
		if !found {
			return holdsOnly(current[field], fields[i+1:])
		}
		current, _ = current[field].(map[string]any)
		desired, _ = wanted.(map[string]any)
	}
	return true
}

// holdsOnly reports whether a value has one field, at the end of a path.
func holdsOnly(value any, path []string) bool {
	for _, field := range path {
		object, _ := value.(map[string]any)
		inner, found := object[field]
		if !found || len(object) != 1 {
			return false
		}
		value = inner
	}
	return value != nil
}
