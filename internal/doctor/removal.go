package doctor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
)

// The checks of a removal, in the order in which they are reported.
const (
	// CheckInProgress looks for upgrades and updates in place that nobody would end.
	CheckInProgress ID = "InProgress"
	// CheckPlans looks for ClusterClasses that leave plans to the extension.
	CheckPlans ID = "Plans"
	// CheckRegistrations looks for ExtensionConfigs and the guard, and for the Services they name.
	CheckRegistrations ID = "Registrations"
	// CheckLeftovers looks for other objects of the whole cluster.
	CheckLeftovers ID = "Leftovers"
	// CheckObjects counts the objects that are lost with the CRDs.
	CheckObjects ID = "Objects"
)

// Removal is what decides whether Windlass can be removed, and what is left of it.
type Removal struct {
	// Prefix begins the keys of the annotations that ask for upgrades in place.
	Prefix string
	// Objects are the Clusters, MachineDeployments, MachineSets and Machines of all namespaces, and
	// the ConfigMaps that lock control planes.
	Objects []Owned
	// Extensions are all ExtensionConfigs, by name. Their value is nil for those of others.
	Extensions map[string]*Called
	// Guard is nil if the guard is not registered.
	Guard *Called
	// Plans has the value of generateUpgradePlanExtension of each ClusterClass that has one.
	Plans map[types.NamespacedName]string
	// Leftovers are ClusterRoles, admission policies and their bindings.
	Leftovers []Owned
	// Stored are the objects of Windlass' own kinds.
	Stored []Owned
}

// Owned is an object with its kind.
type Owned struct {
	Kind   string
	Object metav1.Object
}

func (o Owned) String() string {
	if o.Object.GetNamespace() == "" {
		return o.Kind + " " + o.Object.GetName()
	}
	return o.Kind + " " + o.Object.GetNamespace() + "/" + o.Object.GetName()
}

// Called is the Service that a registration makes others call.
type Called struct {
	// Service is empty if the registration names a URL.
	Service types.NamespacedName
	// Missing reports that the Service does not exist.
	Missing bool
}

// ExamineRemoval returns what is left of Windlass, sorted, and a verdict of one sentence. An Error
// is something that would fail, or fails already, without the extension.
func ExamineRemoval(r Removal) ([]Finding, string) {
	var all []Finding
	for _, check := range []struct {
		id  ID
		run func(Removal, *findings)
	}{
		{CheckInProgress, removalInProgress},
		{CheckPlans, removalPlans},
		{CheckRegistrations, removalRegistrations},
		{CheckLeftovers, removalLeftovers},
		{CheckObjects, removalObjects},
	} {
		into := &findings{id: check.id}
		check.run(r, into)
		slices.SortStableFunc(into.list, func(a, b Finding) int {
			return strings.Compare(a.Subject, b.Subject)
		})
		all = append(all, into.list...)
	}
	return all, removalVerdict(all)
}

func removalVerdict(all []Finding) string {
	count := func(of Severity) (n int) {
		for _, f := range all {
			if f.Severity == of {
				n++
			}
		}
		return n
	}
	if n := count(Error); n > 0 {
		return fmt.Sprintf("Something would fail without Windlass, or fails already: %s.",
			text.Count(n, "object"))
	}
	if n := count(Warning); n > 0 {
		return fmt.Sprintf("Nothing fails without Windlass once the registrations are removed "+
			"first. %s left.", text.CountAre(n, "object"))
	}
	return "Nothing is left of Windlass."
}

func removalInProgress(r Removal, into *findings) {
	for _, o := range r.Objects {
		if o.Kind == "ConfigMap" {
			into.add(Error, o.String(), "wait until the upgrade of the control plane has ended",
				"it locks a control plane for an upgrade in place")
			continue
		}
		for _, mark := range marks(r.Prefix) {
			if _, marked := o.Object.GetAnnotations()[mark.key]; marked {
				into.add(Error, o.String(), mark.fix, "%s (annotation %s)", mark.message, mark.key)
				break
			}
		}
	}
}

// mark is an annotation by which an object waits for Windlass.
type mark struct{ key, message, fix string }

func marks(prefix string) []mark {
	const (
		update = "its update in place has begun, and nobody would end it"
		wait   = "wait until it has ended; windlass status shows how far it is"
	)
	return []mark{
		{clusterv1.UpdateInProgressAnnotation, update, wait},
		{v1alpha1.UpdateProgressAnnotation, update, wait},
		{v1alpha1.UpdatePlanAnnotation, update, wait},
		{v1alpha1.MovedFromAnnotation, update, wait},
		{
			v1alpha1.HandedOverAnnotation,
			"an updater updates its Machines, and nobody would end this",
			wait,
		},
		{
			v1alpha1.UpdateOwedAnnotation,
			"an abandoned update left a part undone, which only the next update in place would do",
			"update it again, or replace the machine",
		},
		{
			v1alpha1.RemediationPausedAnnotation, "health checks would never remediate it",
			"wait until its update has ended",
		},
		{prefix + v1alpha1.InPlaceUpgradeTo, "an annotation asks for an upgrade in place", wait},
		{v1alpha1.ChainIntentAnnotation, "windlass manager upgrades it", wait},
		{v1alpha1.ChainProgressAnnotation, "windlass manager upgrades it", wait},
	}
}

func removalPlans(r Removal, into *findings) {
	for class, handler := range r.Plans {
		_, name, _ := strings.Cut(handler, ".")
		ours, registered := r.Extensions[name]
		subject := "ClusterClass " + class.String()
		const fix = "remove spec.upgrade.external.generateUpgradePlanExtension, or name another " +
			"extension"
		switch {
		case !registered:
			into.add(Error, subject, fix, "Cluster API cannot upgrade its Clusters: it leaves "+
				"plans to %s, and there is no ExtensionConfig %q", handler, name)
		case ours != nil:
			into.add(Error, subject, fix, "Cluster API cannot upgrade its Clusters without "+
				"Windlass: it leaves plans to %s", handler)
		}
	}
}

func removalRegistrations(r Removal, into *findings) {
	for name, called := range r.Extensions {
		if called != nil {
			addRegistration(into, "ExtensionConfig "+name, "kubectl delete extensionconfig "+name,
				called, "Cluster API calls its hooks, and each Cluster waits")
		}
	}
	if r.Guard != nil {
		name := v1alpha1.GuardConfigurationName
		addRegistration(into, "ValidatingWebhookConfiguration "+name,
			"kubectl delete validatingwebhookconfiguration "+name, r.Guard,
			"the API server creates and deletes no Machine that a policy keeps")
	}
}

func addRegistration(into *findings, subject, fix string, called *Called, effect string) {
	if called.Missing {
		into.add(Error, subject, fix, "its Service %s does not exist: %s", called.Service, effect)
		return
	}
	into.add(Warning, subject, fix+", before you remove the extension",
		"it is registered; without the extension %s", effect)
}

func removalLeftovers(r Removal, into *findings) {
	for _, o := range r.Leftovers {
		into.add(Warning, o.String(), "delete it after the extension",
			"it has no use without the extension")
	}
}

func removalObjects(r Removal, into *findings) {
	for _, o := range r.Stored {
		into.add(Warning, o.String(), "save it before you delete the CRD",
			"it is lost if the CRD of its kind is deleted")
	}
}
