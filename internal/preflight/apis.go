package preflight

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Removal is an API that Kubernetes stops to serve.
type Removal struct {
	Kind schema.GroupVersionKind
	// Resource is its plural, such as flowschemas.
	Resource string
	// Removed is the first minor without it.
	Removed version.Minor
	// Replacement is the same kind in a version that stays; empty if Kubernetes names none.
	Replacement schema.GroupVersionKind
}

// Removals are the APIs whose types in k8s.io/api name the release that removes them, sorted. APIs
// that k8s.io/api no longer contains are missing, such as PodSecurityPolicies.
var Removals = sync.OnceValue(func() []Removal {
	var removals []Removal
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		removed, ok := reflect.TypeAssert[interface{ APILifecycleRemoved() (int, int) }](reflect.New(of))
		if !ok || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		r := Removal{Kind: kind, Resource: resource.Resource, Removed: newMinor(removed.APILifecycleRemoved())}
		if by, ok := removed.(interface {
			APILifecycleReplacement() schema.GroupVersionKind
		}); ok {
			r.Replacement = by.APILifecycleReplacement()
		}
		removals = append(removals, r)
	}
	slices.SortFunc(removals, func(a, b Removal) int { return cmp.Compare(a.Kind.String(), b.Kind.String()) })
	return removals
})

func newMinor(major, minor int) version.Minor {
	bounded := func(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }
	return version.Minor{Major: bounded(major), Minor: bounded(minor)}
}

// Removals returns the APIs that the upgrade removes, sorted.
func (u Upgrade) Removals() []Removal {
	return slices.DeleteFunc(slices.Clone(Removals()), func(r Removal) bool { return !u.removes(r.Removed) })
}

// useInstead is the fix for an API that is removed: its replacement, if Kubernetes names one.
func useInstead(replacement schema.GroupVersionKind) string {
	if replacement.Empty() {
		return "stop using it: see https://kubernetes.io/docs/reference/using-api/deprecation-guide/"
	}
	return "use " + apiVersion(replacement)
}

func apiVersion(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}

// CheckRequested finds the APIs that clients of the API server request and the upgrade removes.
func CheckRequested(u Upgrade, apis []gate.API) []clustercheck.Finding {
	r := report{id: RemovedAPIsRequested}
	for _, api := range gate.RemovedBy(u.To.Minor(), apis) {
		fix := useInstead(schema.GroupVersionKind{})
		for _, known := range Removals() {
			if known.Kind.Group == api.Group && known.Kind.Version == api.Version && known.Resource == api.Resource {
				fix = useInstead(known.Replacement)
			}
		}
		r.fail(api.String(), "find the clients in the audit log (annotation k8s.io/deprecated); "+fix,
			"a client has requested it since the API server started")
	}
	return r.finish("the API server that answered has seen no request for an API that is removed by %s", u.To.Minor())
}

// Write is the last write of a manager to an object, as managedFields record it.
type Write struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	Manager         string
	Time            time.Time
}

// CheckManaged finds what managers wrote through APIs that the upgrade removes. read is how many
// objects were read.
func CheckManaged(u Upgrade, writes []Write, read int) []clustercheck.Finding {
	type group struct {
		kind    schema.GroupVersionKind
		manager string
	}
	found := map[group][]Write{}
	for _, w := range writes {
		g := group{w.Kind, w.Manager}
		found[g] = append(found[g], w)
	}
	r := report{id: RemovedAPIsManaged}
	for g, writes := range found {
		known := slices.IndexFunc(u.Removals(), func(r Removal) bool { return r.Kind == g.kind })
		if known < 0 {
			continue
		}
		removal := u.Removals()[known]
		last := slices.MaxFunc(writes, func(a, b Write) int {
			return cmp.Or(a.Time.Compare(b.Time), strings.Compare(b.Namespace+"/"+b.Name, a.Namespace+"/"+a.Name))
		})
		r.warn(fmt.Sprintf("%s, manager %s", apiVersion(g.kind), text.Bound(g.manager, maxNameBytes)),
			"update this manager if it still runs; "+useInstead(removal.Replacement),
			"it wrote %s through this API, which is removed in %s; the last write was to %s at %s",
			text.Count(len(writes), "object"), removal.Removed, named(g.kind.Kind, last.Namespace, last.Name),
			last.Time.UTC().Format(time.RFC3339))
	}
	return r.finish("managedFields of %s name no API that the upgrade removes", text.Count(read, "object"))
}

// Manifest is an object in a file.
type Manifest struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// elsewhere are the groups of Kubernetes without types in k8s.io/api, and the version that stays;
// it is empty for a group that is removed.
var elsewhere = map[string]string{
	"apiextensions.k8s.io":     "v1",
	"apiregistration.k8s.io":   "v1",
	"auditregistration.k8s.io": "",
	"settings.k8s.io":          "",
}

// isUnknown reports whether a kind is of a group of Kubernetes, and k8s.io/api has no type of it.
func isUnknown(kind schema.GroupVersionKind) bool {
	if stays, ok := elsewhere[kind.Group]; ok {
		return kind.Version != stays
	}
	return scheme.Scheme.IsGroupRegistered(kind.Group) && !scheme.Scheme.Recognizes(kind)
}

// CheckManifests finds the objects that the target does not serve. An object of Kubernetes whose
// type is unknown is NotChecked.
func CheckManifests(u Upgrade, manifests []Manifest) []clustercheck.Finding {
	r := report{id: RemovedAPIsInManifests}
	for _, m := range manifests {
		subject := named(m.Kind.Kind, m.Namespace, m.Name)
		known := slices.IndexFunc(Removals(), func(r Removal) bool { return r.Kind == m.Kind })
		switch {
		case isUnknown(m.Kind):
			r.add(clustercheck.NotChecked, subject, useInstead(schema.GroupVersionKind{}),
				"k8s.io/api, as Windlass is built with it, has no %s: it is removed, or newer",
				text.Bound(apiVersion(m.Kind), maxNameBytes))
		case known >= 0 && !u.To.Minor().Before(Removals()[known].Removed):
			r.fail(subject, useInstead(Removals()[known].Replacement),
				"its apiVersion %s is removed in %s", m.Kind.GroupVersion(), Removals()[known].Removed)
		}
	}
	return r.finish("%s checked: none uses an API that is removed by %s", text.Count(len(manifests), "object"), u.To.Minor())
}

// Definition is what counts of a CustomResourceDefinition.
type Definition struct {
	Name string
	// Stored are the versions that objects may be stored in.
	Stored []string
	// Served and Deprecated are versions.
	Served, Deprecated []string
}

// CheckStored finds CustomResourceDefinitions with objects that may be stored in a version that goes.
func CheckStored(definitions []Definition) []clustercheck.Finding {
	r := report{id: StoredVersions}
	for _, d := range definitions {
		for _, v := range d.Stored {
			var problem string
			switch {
			case !slices.Contains(d.Served, v):
				problem = "which it does not serve"
			case slices.Contains(d.Deprecated, v) && len(d.Stored) > 1:
				problem = "which is deprecated"
			default:
				continue
			}
			r.warn(named("CustomResourceDefinition", "", d.Name),
				"write all its objects again (StorageVersionMigration), and remove the version from status.storedVersions; "+
					"until then, an operator release without this version cannot be installed",
				"objects may be stored in version %s, %s", text.Bound(v, maxNameBytes), problem)
		}
	}
	return r.finish("%s checked: objects are stored in versions that are served", text.Count(len(definitions), "CustomResourceDefinition"))
}
