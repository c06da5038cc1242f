package cover

import (
	"encoding/json"
	"slices"

	"github.com/windlass-dev/windlass/internal/text"
)

// This file compares what a request says, or what a decision was made for, with live objects. Fields that are empty count as absent, because typed
// clients and API servers differ in which empty fields they write.

// view is the compared spec of each part, without empty fields.
type view [3]tree

// viewOf returns the view of objects. change is applied to the spec of a KubeadmConfig first; nil
// changes nothing.
func viewOf(scope Scope, o Objects, change func(config tree) tree) (view, error) {
	var v view
	c := Coverage{scope: scope}
	for i, raw := range o.list() {
		object, err := parseObject(raw)
		if err != nil {
			return v, &InputError{Input: string(parts[i]), Problem: "it cannot be read as a JSON object", Err: err}
		}
		spec := compared(i, lookup(object, c.base()))
		if change != nil && isKubeadm(object) {
			spec = change(spec)
		}
		v[i] = prune(spec)
	}
	return v, nil
}

// Differing returns the compared fields in which two sets of objects differ, sorted.
func Differing(scope Scope, a, b Objects) ([]Pointer, error) {
	viewA, err := viewOf(scope, a, nil)
	if err != nil {
		return nil, err
	}
	viewB, err := viewOf(scope, b, nil)
	if err != nil {
		return nil, err
	}
	base := (&Coverage{scope: scope}).base()
	found := make(map[Part]*fields)
	for i, part := range parts {
		found[part] = differences(viewA[i], viewB[i]).at(base)
	}
	return reported.pointers(found), nil
}

// NotLive returns the fields in which a request's current objects of a Machine are not the live ones,
// sorted. A KubeadmConfig may be as it is stored, or as Cluster API prepares it. Cluster API's dry run
// of the infrastructure machine adds defaults: these do not count. A default has the same value in
// desired, so that it is no change.
func NotLive(current, live, desired Objects) ([]Pointer, error) {
	want, err := viewOf(Machine, desired, prepare)
	if err != nil {
		return nil, err
	}
	sent, err := viewOf(Machine, current, prepare)
	if err != nil {
		return nil, err
	}
	prepared, err := notLive(sent, live, want, func(config tree) tree { return prepare(asCurrent(config, want[2])) })
	if err != nil || len(prepared) == 0 {
		return nil, err
	}
	stored, err := notLive(sent, live, want, prepare)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	return prepared, nil
}

// notLive is NotLive for a change of the live KubeadmConfig.
func notLive(sent view, live Objects, want view, change func(tree) tree) ([]Pointer, error) {
	have, err := viewOf(Machine, live, change)
	if err != nil {
		return nil, err
	}
	found := make(map[Part]*fields)
	for i, part := range parts {
		found[part] = differences(sent[i], have[i]).filter(func(_ []string, at []tree) bool {
			isDefault := isAbsent(at[1]) && equal(at[0], at[2])
			return part != PartInfrastructure || !isDefault
		}, sent[i], have[i], want[i]).at(machineBase)
	}
	return reported.pointers(found), nil
}

// Missing returns the fields of a MachineSet and its templates that the objects of a machine do not carry, sorted, with paths as for Machine scope. What the
// objects of the machine have beyond that, such as a providerID, does not count, except for fields of a KubeadmConfig that no controller fills in.
func Missing(templates, machine Objects) ([]Pointer, error) {
	want, err := viewOf(MachineSet, templates, essence)
	if err != nil {
		return nil, err
	}
	have, err := viewOf(Machine, machine, essence)
	if err != nil {
		return nil, err
	}
	found := make(map[Part]*fields)
	for i, part := range parts {
		found[part] = lacks(want[i], have[i]).at(machineBase)
	}
	if config, err := parseObject(machine.Bootstrap); err == nil && isKubeadm(config) {
		var extra []*fields
		for _, key := range keysOf(have[2], absent{}) {
			if !slices.Contains(filledIn, key) && isAbsent(field(want[2], key)) {
				extra = append(extra, &fields{token: escape(key)})
			}
		}
		found[PartBootstrap] = merge(found[PartBootstrap], above("", extra).at(machineBase))
	}
	return reported.pointers(found), nil
}

// Unasked returns the fields of a control plane Machine's desired objects that its source does not
// ask for, sorted. source holds what the control plane's object asks for, in the form of a Machine's
// objects: its version, its bootstrap config's spec and its infrastructure template's spec. Every change
// from current to desired must have the value of source, and desired must have all that source has.
// A part that source lacks asks for no change. /kind stands for an object of another kind. The
// bootstrap config in current is the live one: that of a request has values of desired.
func Unasked(current, desired, source Objects) ([]Pointer, error) {
	changes := [3]func(tree) tree{prepare, prepare, func(config tree) tree { return prepare(without(config, "/initConfiguration")) }}
	if !isNone(source.Bootstrap) {
		changes[0] = func(config tree) tree { return prepare(toJoin(config)) }
	}
	config, err := parseObject(source.Bootstrap)
	kubeadm := err != nil || isKubeadm(config)
	var views [3]view
	for i, o := range []Objects{current, desired, source} {
		v, err := viewOf(Machine, o, changes[i])
		if err != nil {
			return nil, err
		}
		views[i] = v
	}
	found, err := otherKinds(current, desired, source)
	if err != nil {
		return nil, err
	}
	for i, raw := range source.list() {
		have, want, asked := views[0][i], views[1][i], views[2][i]
		if !kubeadm && parts[i] == PartBootstrap {
			asked = withoutZeros(asked, want)
		}
		changed := differences(have, want)
		if !isNone(raw) {
			changed = changed.filter(func(path []string, at []tree) bool {
				return !equal(at[0], at[1]) && !isSetByKubeadm(i, path, at[0], at[1])
			}, want, asked)
			changed = merge(changed, lacks(asked, want))
		}
		found[parts[i]] = merge(found[parts[i]], changed.at(machineBase))
	}
	return reported.pointers(found), nil
}

// withoutZeros returns what a control plane asks for without the false and 0 that want omits. Providers
// whose spec embeds a bootstrap config copy it by Go types, which omit them.
func withoutZeros(asked, want tree) tree {
	object, ok := asked.(map[string]any)
	if isZero := asked == tree(false) || asked == tree(json.Number("0")); !ok && isZero && isAbsent(want) {
		return absent{}
	}
	if !ok {
		return asked
	}
	kept := make(map[string]any, len(object))
	for key, value := range object {
		kept[key] = withoutZeros(value, field(want, key))
	}
	return prune(kept)
}

// otherKinds returns /kind of each desired object that is of another kind than its source asks for,
// or, without a source and for the Machine, than it is.
func otherKinds(current, desired, source Objects) (map[Part]*fields, error) {
	found := make(map[Part]*fields)
	have, want, asked := current.list(), desired.list(), source.list()
	for i := range parts {
		if isNone(asked[i]) || i == machineIndex {
			asked[i] = have[i]
		}
		is, err := parseObject(want[i])
		if err != nil {
			return nil, err
		}
		should, err := parseObject(asked[i])
		if err != nil {
			return nil, err
		}
		if kind(is) != kind(should) {
			found[parts[i]] = pathsOf("/kind")
		}
	}
	return found, nil
}

// isSetByKubeadm reports whether a change is the one that KubeadmControlPlane makes by itself:
// DefaultFeatureGates in controlplane/kubeadm/pkg/desiredstate/desired_state.go.
func isSetByKubeadm(i int, path []string, value, asked tree) bool {
	return parts[i] == PartBootstrap && isAbsent(asked) && value == tree(true) &&
		slices.Equal(path, []string{"clusterConfiguration", "featureGates", LocalModeGate})
}

// Fingerprint identifies the desired state of a machine: the compared spec of its Machine and, without what Cluster API's controllers fill in, of its
// KubeadmConfig. Infrastructure machines and other bootstrap configs are left out, because their controllers write to their specs.
func Fingerprint(o Objects) (string, error) {
	v, err := viewOf(Machine, o, essence)
	if err != nil {
		return "", err
	}
	identified := map[string]any{}
	if !isAbsent(v[machineIndex]) {
		identified[string(PartMachine)] = v[machineIndex]
	}
	if config, err := parseObject(o.Bootstrap); err == nil && isKubeadm(config) && !isAbsent(v[2]) {
		identified[string(PartBootstrap)] = v[2]
	}
	return digest(identified), nil
}

// Describe lists at most three fields for people.
func Describe(list []Pointer) string { return describe(list, 3) }

func describe(list []Pointer, most int) string {
	words := make([]string, 0, len(list))
	for _, p := range list {
		words = append(words, string(p.Part)+" "+p.Path)
	}
	return text.JoinSome(words, most, ", ")
}

// DescribeUncovered names at most eight fields that are not covered, and says what was wrong with the
// answers of updaters. machine is what the Machine, or the MachineSet, is called.
func (r Result) DescribeUncovered(machine Part) string {
	fields := slices.Clone(r.Uncovered)
	for i := range fields {
		if fields[i].Part == PartMachine {
			fields[i].Part = machine
		}
	}
	words := text.Some{Most: 8}
	words.Add(describe(fields, 8))
	for _, err := range r.Errors {
		words.Add(err.Error())
	}
	for _, note := range r.Notes {
		words.Add(note)
	}
	return words.Join("; ")
}

// filledIn are the fields of a KubeadmConfig's spec below which Cluster API's controllers write.
var filledIn = []string{"clusterConfiguration", "initConfiguration", "joinConfiguration"}

func isKubeadm(object tree) bool {
	k := kind(object)
	return k == [2]string{"bootstrap.cluster.x-k8s.io", "KubeadmConfig"} || k == [2]string{"bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"}
}

// The following functions do for a KubeadmConfig's spec what Cluster API does before it compares a
// control plane Machine's: PrepareKubeadmConfigsForDiff in its controlplane/kubeadm/pkg/filters.go.

// dropped are the fields that it does not compare. Of the rest, taken are those of the current config
// that it replaces by desired ones; caCertPath only of the config that initialised a control plane.
var (
	dropped = []string{
		"/joinConfiguration/discovery",
		"/initConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
		"/joinConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
	}
	taken = []string{"/clusterConfiguration/controlPlaneEndpoint", "/clusterConfiguration/dns"}
)

const caCertPath = "/joinConfiguration/caCertPath"

// defaulted are the defaults that it sets.
var defaulted = map[string]string{
	"/format": "cloud-config",
	"/initConfiguration/nodeRegistration/imagePullPolicy": "IfNotPresent",
	"/joinConfiguration/nodeRegistration/imagePullPolicy": "IfNotPresent",
}

// prepare removes what is not compared, and defaults.
func prepare(config tree) tree {
	for path, value := range defaulted {
		if lookup(config, path) == tree(value) {
			config = put(config, tokens(path), absent{})
		}
	}
	return without(config, dropped...)
}

// asCurrent returns the current config that is sent for a live one.
func asCurrent(live, desired tree) tree {
	replaced := taken
	if isForInit(live) {
		replaced = append(slices.Clip(taken), caCertPath)
	}
	live = toJoin(live)
	for _, path := range replaced {
		live = put(live, tokens(path), lookup(desired, path))
	}
	return live
}

// toJoin makes the init configuration of a config that initialised a control plane its join
// configuration.
func toJoin(config tree) tree {
	if !isForInit(config) {
		return config
	}
	initial := field(config, "initConfiguration")
	for _, key := range []string{"nodeRegistration", "patches", "skipPhases", "timeouts"} {
		config = put(config, []string{"joinConfiguration", key}, field(initial, key))
	}
	config = without(config, "/initConfiguration", "/joinConfiguration/controlPlane")
	return put(config, tokens("/joinConfiguration/controlPlane/localAPIEndpoint"), field(initial, "localAPIEndpoint"))
}

// isForInit is isKubeadmConfigForInit of the same file. Go pointers are nil for null and for what is
// absent, and not nil for an empty object.
func isForInit(config tree) bool {
	controlPlane := lookup(config, "/joinConfiguration/controlPlane")
	arguments, _ := lookup(config, "/joinConfiguration/nodeRegistration/kubeletExtraArgs").([]any)
	return (isAbsent(controlPlane) || controlPlane == nil) && len(arguments) == 0
}

// essence returns a stored config without what Cluster API's controllers fill in.
func essence(config tree) tree {
	return without(prepare(config), append(slices.Clip(taken), caCertPath, "/initConfiguration")...)
}

func without(t tree, paths ...string) tree {
	for _, path := range paths {
		t = put(t, tokens(path), absent{})
	}
	return t
}

// prune removes empty objects, lists and strings, and null, at any depth; what is left of nothing is absent.
func prune(t tree) tree {
	switch t := t.(type) {
	case map[string]any:
		kept := make(map[string]any, len(t))
		for key, value := range t {
			if value = prune(value); !isAbsent(value) {
				kept[key] = value
			}
		}
		if len(kept) == 0 {
			return absent{}
		}
		return kept
	case []any:
		if len(t) == 0 {
			return absent{}
		}
		list := make([]any, len(t))
		for i := range t {
			if list[i] = prune(t[i]); isAbsent(list[i]) {
				list[i] = nil // Elements keep their places.
			}
		}
		return list
	case nil:
		return absent{}
	case string:
		if t == "" {
			return absent{}
		}
	}
	return t
}
