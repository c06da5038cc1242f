package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
)

// Manifests in git often leave the namespace to whoever applies them. An object without one therefore matches any; where
// both have one, they must be the same.
func sameNamespace(a, b string) bool { return a == b || a == "" || b == "" }

// Cluster returns the Cluster of that name, or the only one when name is empty. An empty namespace matches all. The error
// is an *Error.
func (s *Set) Cluster(namespace, name string) (*clusterv1.Cluster, error) {
	var found []*clusterv1.Cluster
	for _, c := range s.Clusters {
		if (name == "" || c.Name == name) && sameNamespace(c.Namespace, namespace) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(s.Clusters) == 0:
		return nil, &Error{Origin: s.wholeOrigin(), Problem: fmt.Sprintf("there is no Cluster; %s read", s.count())}
	case len(found) == 0:
		wanted := "in namespace " + strconv.Quote(namespace)
		if name != "" {
			wanted = strconv.Quote(join(namespace, name))
		}
		return nil, &Error{Origin: s.wholeOrigin(), Problem: fmt.Sprintf("there is no Cluster %s; there is %s", wanted, s.list(s.Clusters))}
	}
	for i, c := range found {
		for _, earlier := range found[:i] {
			if sameObject(c, earlier) {
				return nil, s.twiceError(earlier, c)
			}
		}
	}
	return nil, &Error{
		Origin:  s.wholeOrigin(),
		Problem: fmt.Sprintf("there are %d Clusters. Fix: name one of %s", len(found), s.list(found)),
	}
}

// ClusterClass returns the class that a Cluster of the set refers to. The error is an *Error.
func (s *Set) ClusterClass(cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, error) {
	namespace, name, ref := snapshot.Class(cluster)
	origin, _ := s.OriginOf(cluster)
	if name == "" {
		return nil, &Error{Origin: origin, Field: ref.Field, Problem: "it is missing, so nothing says which versions there are"}
	}
	var found *clusterv1.ClusterClass
	for _, class := range s.ClusterClasses {
		switch {
		case class.Name != name || !sameNamespace(class.Namespace, namespace):
		case found == nil:
			found = class
		case sameObject(class, found):
			return nil, s.twiceError(found, class)
		case class.Namespace == namespace:
			found = class
		}
	}
	if found == nil {
		return nil, &Error{
			Origin: origin, Field: ref.Field,
			Problem: fmt.Sprintf("the ClusterClass %q is not there; %s read", join(namespace, name), s.count()),
		}
	}
	return found, nil
}

// Objects gathers what belongs to a Cluster of the set. The error is an *Error.
func (s *Set) Objects(cluster *clusterv1.Cluster) (snapshot.Objects, error) {
	o := snapshot.Objects{
		Cluster:            cluster,
		MachineDeployments: belonging(cluster, s.MachineDeployments, func(o *clusterv1.MachineDeployment) string { return o.Spec.ClusterName }),
		MachinePools:       belonging(cluster, s.MachinePools, func(o *clusterv1.MachinePool) string { return o.Spec.ClusterName }),
		Machines:           belonging(cluster, s.Machines, func(o *clusterv1.Machine) string { return o.Spec.ClusterName }),
	}
	for _, object := range s.ControlPlanes {
		if !isControlPlaneOf(object, cluster) {
			continue
		}
		if o.ControlPlane != nil {
			return snapshot.Objects{}, s.twiceError(o.ControlPlane, object)
		}
		o.ControlPlane = object
	}
	return o, nil
}

// UpdateObjects are the UpdatePolicies of a Cluster's namespace, and the Updaters: those that it would be updated by once all of
// the set is applied.
func (s *Set) UpdateObjects(cluster *clusterv1.Cluster) ([]v1alpha1.UpdatePolicy, []v1alpha1.Updater) {
	var policies []v1alpha1.UpdatePolicy
	for _, p := range s.UpdatePolicies {
		if sameNamespace(p.Namespace, cluster.Namespace) {
			policy := *p.DeepCopy()
			policy.Namespace = cluster.Namespace
			policies = append(policies, policy)
		}
	}
	updaters := make([]v1alpha1.Updater, 0, len(s.Updaters))
	for _, u := range s.Updaters {
		updaters = append(updaters, *u.DeepCopy())
	}
	return policies, updaters
}

// Gates are the UpgradeGates of a Cluster's namespace, as copies.
func (s *Set) Gates(cluster *clusterv1.Cluster) []v1alpha1.UpgradeGate {
	var gates []v1alpha1.UpgradeGate
	for _, g := range s.UpgradeGates {
		if sameNamespace(g.Namespace, cluster.Namespace) {
			gate := *g.DeepCopy()
			gate.Namespace = cluster.Namespace
			gates = append(gates, gate)
		}
	}
	return gates
}

// ControlPlaneTemplate is the KubeadmControlPlaneTemplate that a class of the set refers to; nil where it is not there.
func (s *Set) ControlPlaneTemplate(class *clusterv1.ClusterClass) *unstructured.Unstructured {
	ref := class.Spec.ControlPlane.TemplateRef
	for _, t := range s.ControlPlaneTemplates {
		if t.GetKind() == ref.Kind && t.GetName() == ref.Name && sameNamespace(t.GetNamespace(), class.Namespace) {
			return t
		}
	}
	return nil
}

// HealthChecks are the MachineHealthChecks of a Cluster.
func (s *Set) HealthChecks(cluster *clusterv1.Cluster) []*clusterv1.MachineHealthCheck {
	return belonging(cluster, s.MachineHealthChecks, func(o *clusterv1.MachineHealthCheck) string { return o.Spec.ClusterName })
}

// Facts returns what the manifests contain about a Cluster. classErr says why its class is not among
// that; now is when the facts hold.
func (s *Set) Facts(
	cluster *clusterv1.Cluster, now time.Time,
) (f doctor.Facts, classErr, err error) {
	f = doctor.Facts{Now: now, HealthChecks: s.HealthChecks(cluster)}
	f.Policies, f.Updaters = s.UpdateObjects(cluster)
	s.addAround(&f, cluster.Namespace)
	if f.Class, classErr = s.ClusterClass(cluster); classErr == nil {
		f.ControlPlaneTemplate = s.ControlPlaneTemplate(f.Class)
	}
	f.Objects, err = s.Objects(cluster)
	f.Objects.Unverified = s.unverified(f.Objects)
	f.Settings = s.settings(cluster, f)
	return f, classErr, err
}

// unverified returns those of [snapshot.Objects].
func (s *Set) unverified(o snapshot.Objects) (names []string) {
	for _, md := range o.MachineDeployments {
		ref := md.Spec.Template.Spec.Bootstrap.ConfigRef
		if slices.ContainsFunc(s.ConfigTemplates, func(t *unstructured.Unstructured) bool {
			return t.GetKind() == ref.Kind && t.GetName() == ref.Name &&
				sameNamespace(t.GetNamespace(), o.Cluster.Namespace) &&
				settings.IgnoresVerification(settings.Object{Kind: ref.Kind, Content: t.Object})
		}) {
			names = append(names, md.Name)
		}
	}
	return names
}

// settings returns those that the manifests give to the components of a Cluster's machines: of its
// control plane, or the template of its class, and of all templates of bootstrap configs in its
// namespace.
func (s *Set) settings(cluster *clusterv1.Cluster, f doctor.Facts) []settings.Use {
	objects := []*unstructured.Unstructured{f.ControlPlaneTemplate}
	if f.Objects.ControlPlane != nil {
		objects[0] = f.Objects.ControlPlane
	}
	for _, template := range s.ConfigTemplates {
		if sameNamespace(template.GetNamespace(), cluster.Namespace) {
			objects = append(objects, template)
		}
	}
	var uses []settings.Use
	for _, o := range objects {
		if o != nil {
			uses = append(uses, settings.FromObject(settings.Object{
				Kind: o.GetKind(), Name: o.GetName(), Content: o.Object,
			})...)
		}
	}
	return uses
}

// belonging selects the objects whose spec.clusterName is the Cluster's.
func belonging[T metav1.Object](cluster *clusterv1.Cluster, objects []T, clusterName func(T) string) []T {
	var selected []T
	for _, o := range objects {
		if clusterName(o) == cluster.Name && sameNamespace(o.GetNamespace(), cluster.Namespace) {
			selected = append(selected, o)
		}
	}
	return selected
}

// isControlPlaneOf goes by the Cluster's reference. A Cluster in git has none, because the topology controller sets it; then
// an object counts whose label names the Cluster and whose kind says that it is a control plane.
func isControlPlaneOf(object *unstructured.Unstructured, cluster *clusterv1.Cluster) bool {
	if !sameNamespace(object.GetNamespace(), cluster.Namespace) {
		return false
	}
	if ref := cluster.Spec.ControlPlaneRef; ref.IsDefined() {
		return object.GetName() == ref.Name && object.GetKind() == ref.Kind && object.GroupVersionKind().Group == ref.APIGroup
	}
	return strings.HasSuffix(object.GetKind(), "ControlPlane") && object.GetLabels()[clusterv1.ClusterNameLabel] == cluster.Name
}

func sameObject(a, b metav1.Object) bool {
	return a.GetName() == b.GetName() && sameNamespace(a.GetNamespace(), b.GetNamespace())
}

func (s *Set) twiceError(first, second metav1.Object) error {
	origin, _ := s.OriginOf(second)
	other, _ := s.OriginOf(first)
	return &Error{
		Origin: origin, Field: "metadata.name",
		Problem: fmt.Sprintf("%q stands there a second time; the first is in %s", join(second.GetNamespace(), second.GetName()), other),
	}
}

// count says how much was read, so that a person sees whether a file is missing.
func (s *Set) count() string {
	if s.objects == 1 {
		return "1 object was"
	}
	return fmt.Sprintf("%d objects were", s.objects)
}

// wholeOrigin is the file when there is one only.
func (s *Set) wholeOrigin() Origin {
	if len(s.files) == 1 {
		return Origin{File: s.files[0]}
	}
	return Origin{File: strings.Join(s.files, ", ")}
}

// list names Clusters, sorted, and where they stand.
func (s *Set) list(clusters []*clusterv1.Cluster) string {
	const most = 5
	names := make([]string, 0, len(clusters))
	for _, c := range clusters {
		origin, _ := s.OriginOf(c)
		names = append(names, fmt.Sprintf("%q (%s)", join(c.Namespace, c.Name), origin))
	}
	slices.Sort(names)
	return text.JoinSome(names, most, ", ")
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
