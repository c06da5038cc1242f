package cover

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file compares what a request says, or what a decision was made for, with live objects. Fields that are empty count as absent, because typed
// clients and API servers differ in which empty fields they write.

// view is the compared spec of each part, without empty fields.
type view [3]tree

// viewOf returns the view of objects. With essence, a KubeadmConfig loses what Cluster API's controllers fill in or normalise; see essence.
func viewOf(scope Scope, o Objects, withEssence bool) (view, error) {
	var v view
	c := Coverage{scope: scope}
	for i, raw := range o.list() {
		object, err := parseObject(raw)
		if err != nil {
			return v, &InputError{Input: string(parts[i]), Problem: "it cannot be read as a JSON object", Err: err}
		}
		spec := compared(i, lookup(object, c.base()))
		if withEssence && isKubeadm(object) {
			spec = essence(spec)
		}
		v[i] = prune(spec)
	}
	return v, nil
}

// Differing returns the compared fields in which two sets of objects differ, sorted.
func Differing(scope Scope, a, b Objects) ([]Pointer, error) {
	return differing(scope, a, b, nil)
}

// NotLive returns the fields in which a request's current objects of a Machine are not the live ones, sorted. Cluster API normalises a KubeadmConfig before
// it asks, and its dry run of the infrastructure machine adds defaults: these do not count. A default has the same value in desired, so that it is no change.
func NotLive(current, live, desired Objects) ([]Pointer, error) {
	v, err := viewOf(Machine, live, true)
	if err != nil {
		return nil, err
	}
	d, err := viewOf(Machine, desired, true)
	if err != nil {
		return nil, err
	}
	return differing(Machine, current, live, func(i int, path string, value tree) bool {
		relative := strings.TrimPrefix(path, machineBase)
		return parts[i] == PartInfrastructure && isAbsent(lookup(v[i], relative)) && equal(value, lookup(d[i], relative))
	})
}

// differing leaves out the fields that tolerate accepts; it is shown a's value.
func differing(scope Scope, a, b Objects, tolerate func(i int, path string, value tree) bool) ([]Pointer, error) {
	viewA, err := viewOf(scope, a, tolerate != nil)
	if err != nil {
		return nil, err
	}
	viewB, err := viewOf(scope, b, tolerate != nil)
	if err != nil {
		return nil, err
	}
	base := (&Coverage{scope: scope}).base()
	var found []Pointer
	for i := range parts {
		for _, path := range differences(base, viewA[i], viewB[i]) {
			if tolerate == nil || !tolerate(i, path, lookup(viewA[i], strings.TrimPrefix(path, base))) {
				found = append(found, Pointer{Part: parts[i], Path: path})
			}
		}
	}
	slices.SortFunc(found, comparePointers)
	return found, nil
}

// Missing returns the fields of a MachineSet and its templates that the objects of a machine do not carry, sorted, with paths as for Machine scope. What the
// objects of the machine have beyond that, such as a providerID, does not count, except for fields of a KubeadmConfig that no controller fills in.
func Missing(templates, machine Objects) ([]Pointer, error) {
	want, err := viewOf(MachineSet, templates, true)
	if err != nil {
		return nil, err
	}
	have, err := viewOf(Machine, machine, true)
	if err != nil {
		return nil, err
	}
	var found []Pointer
	for i := range parts {
		for _, path := range lacks(machineBase, want[i], have[i]) {
			found = append(found, Pointer{Part: parts[i], Path: path})
		}
	}
	if config, err := parseObject(machine.Bootstrap); err == nil && isKubeadm(config) {
		for _, key := range keysOf(have[2]) {
			if !slices.Contains(filledIn, key) && isAbsent(field(want[2], key)) {
				found = append(found, Pointer{Part: PartBootstrap, Path: machineBase + "/" + escape(key)})
			}
		}
	}
	slices.SortFunc(found, comparePointers)
	return found, nil
}

// lacks returns the leaves of want that have does not carry. Lists are compared element by element where they have one length.
func lacks(path string, want, have tree) []string {
	if object, ok := want.(map[string]any); ok {
		var found []string
		for _, key := range keysOf(object) {
			found = append(found, lacks(path+"/"+escape(key), object[key], field(have, key))...)
		}
		return found
	}
	if wanted, found, ok := sameLength(want, have); ok {
		var missing []string
		for i := range wanted {
			missing = append(missing, lacks(path+"/"+strconv.Itoa(i), wanted[i], found[i])...)
		}
		return missing
	}
	if isAbsent(want) || equal(want, have) {
		return nil
	}
	return []string{path}
}

// Unasked returns the changes from current to desired, of a control plane Machine's bootstrap config and infrastructure machine, that source does not ask
// for, sorted. source holds what the control plane's object asks for: its version, its KubeadmConfig spec and its infrastructure template's spec, in the form
// of a Machine's objects. A part that source lacks is not checked.
func Unasked(current, desired, source Objects) ([]Pointer, error) {
	source, err := withoutInit(source)
	if err != nil {
		return nil, err
	}
	var views [3]view
	for i, o := range []Objects{current, desired, source} {
		v, err := viewOf(Machine, o, true)
		if err != nil {
			return nil, err
		}
		views[i] = v
	}
	var found []Pointer
	for i, raw := range source.list() {
		if isNone(raw) {
			continue
		}
		for _, path := range differences("", views[0][i], views[1][i]) {
			if !isAskedFor(i, path, lookup(views[1][i], path), views[2][i]) {
				found = append(found, Pointer{Part: parts[i], Path: machineBase + path})
			}
		}
	}
	slices.SortFunc(found, comparePointers)
	return found, nil
}

// withoutInit removes the init configuration of what a control plane's object asks for: Cluster API asks every Machine for the join configuration alone, also the
// Machine that initialised the control plane.
func withoutInit(source Objects) (Objects, error) {
	if isNone(source.Bootstrap) {
		return source, nil
	}
	config, err := parseObject(source.Bootstrap)
	if err != nil {
		return Objects{}, err
	}
	source.Bootstrap, err = json.Marshal(put(config, []string{"spec", "initConfiguration"}, absent{}))
	return source, err
}

// isAskedFor reports whether a source asks for a changed value. KubeadmControlPlane sets feature gates by itself, and defaults may appear beside what an
// infrastructure template sets.
func isAskedFor(i int, path string, value, source tree) bool {
	asked := lookup(source, path)
	switch {
	case equal(value, asked):
		return true
	case parts[i] == PartBootstrap:
		return within(path, "/clusterConfiguration/featureGates")
	case parts[i] == PartInfrastructure:
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return isAbsent(asked) && !isAbsent(lookup(source, "/"+top))
	}
	return false
}

// Fingerprint identifies the desired state of a machine: the compared spec of its Machine and, without what Cluster API's controllers fill in, of its
// KubeadmConfig. Infrastructure machines and other bootstrap configs are left out, because their controllers write to their specs.
func Fingerprint(o Objects) (string, error) {
	v, err := viewOf(Machine, o, true)
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
func Describe(list []Pointer) string {
	const most = 3
	words := make([]string, 0, most+1)
	for i, p := range list {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		words = append(words, fmt.Sprintf("%s %s", p.Part, p.Path))
	}
	return strings.Join(words, ", ")
}

// filledIn are the fields of a KubeadmConfig's spec below which Cluster API's controllers write.
var filledIn = []string{"clusterConfiguration", "initConfiguration", "joinConfiguration"}

func isKubeadm(object tree) bool {
	k := kind(object)
	return k == [2]string{"bootstrap.cluster.x-k8s.io", "KubeadmConfig"} || k == [2]string{"bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"}
}

// notCompared are the fields of a KubeadmConfig's spec that Cluster API does not compare for control planes, or fills in: PrepareKubeadmConfigsForDiff in its
// controlplane/kubeadm/pkg/filters.go. The init configuration is that of the first machine only; see essence.
var notCompared = []string{
	"/initConfiguration",
	"/clusterConfiguration/controlPlaneEndpoint",
	"/clusterConfiguration/dns",
	"/joinConfiguration/discovery",
	"/joinConfiguration/caCertPath",
	"/joinConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
}

// defaulted are the defaults that Cluster API sets before it compares.
var defaulted = map[string]string{"/format": "cloud-config", "/joinConfiguration/nodeRegistration/imagePullPolicy": "IfNotPresent"}

// essence returns a KubeadmConfig's spec without what Cluster API does not compare. Where it is the one that initialised a control plane, its init
// configuration becomes the join configuration, as in Cluster API.
func essence(spec tree) tree {
	for path, value := range defaulted {
		if lookup(spec, path) == tree(value) {
			spec = put(spec, tokens(path), absent{})
		}
	}
	if initial := field(spec, "initConfiguration"); isAbsent(prune(lookup(spec, "/joinConfiguration/controlPlane"))) &&
		isAbsent(prune(lookup(spec, "/joinConfiguration/nodeRegistration"))) {
		for _, key := range []string{"nodeRegistration", "patches", "skipPhases", "timeouts"} {
			if value := field(initial, key); !isAbsent(value) {
				spec = put(spec, []string{"joinConfiguration", key}, value)
			}
		}
		if endpoint := field(initial, "localAPIEndpoint"); !isAbsent(endpoint) {
			spec = put(spec, tokens("/joinConfiguration/controlPlane/localAPIEndpoint"), endpoint)
		}
		path := "/joinConfiguration/nodeRegistration/imagePullPolicy"
		if lookup(spec, path) == tree(defaulted[path]) {
			spec = put(spec, tokens(path), absent{})
		}
	}
	for _, path := range notCompared {
		spec = put(spec, tokens(path), absent{})
	}
	return spec
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
