package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/pkg/version"
)

// API groups whose objects the demo reads.
const (
	infrastructureGroup = "infrastructure.cluster.x-k8s.io"
	controlPlaneGroup   = "controlplane.cluster.x-k8s.io"
	bootstrapGroup      = "bootstrap.cluster.x-k8s.io"
)

// Names of the templates that stand for the user's infrastructure.
const (
	simulatedCluster      = "simulated-cluster"
	simulatedControlPlane = "simulated-control-plane"
	simulatedWorker       = "simulated-worker"
	plainBootstrap        = "plain-bootstrap"
)

// FromObjects makes a scenario from a ClusterClass, its templates and a Cluster, and swaps their infrastructure for
// in-memory machines. What had to be changed or left out for that is in Scenario.Notices. Objects are not changed.
func FromObjects(objects []*unstructured.Unstructured, target version.Version) (Scenario, error) {
	return swap(objects, target, simulatedInfrastructure())
}

// infrastructure is what takes the place of the user's.
type infrastructure struct {
	// what says so in a notice.
	what                          string
	cluster, controlPlane, worker clusterv1.ClusterClassTemplateReference
	templates                     []*unstructured.Unstructured
	// adapt changes the spec of a kubeadm template so that it works there; nil if every spec does.
	adapt func(spec any, notice func(format string, args ...any)) any
}

func simulatedInfrastructure() infrastructure {
	return infrastructure{
		what:    "infrastructure is simulated: DevCluster and DevMachine",
		cluster: reference(infrastructureGroup, "DevClusterTemplate", simulatedCluster), controlPlane: reference(infrastructureGroup, "DevMachineTemplate", simulatedControlPlane),
		worker: reference(infrastructureGroup, "DevMachineTemplate", simulatedWorker), templates: simulatedTemplates(),
	}
}

func swap(objects []*unstructured.Unstructured, target version.Version, to infrastructure) (Scenario, error) {
	if target.IsZero() {
		return Scenario{}, errors.New("the version to upgrade to is missing: say it with --to")
	}
	s := &swapper{scenario: Scenario{Target: target}, to: to}
	for _, read := range []func([]*unstructured.Unstructured) error{s.readCluster, s.readClass, s.readGraphs} {
		if err := read(objects); err != nil {
			return Scenario{}, err
		}
	}
	s.cleanCluster()
	if err := s.swapTemplates(objects); err != nil {
		return Scenario{}, err
	}
	s.swapPatches()
	if err := s.finish(); err != nil {
		return Scenario{}, err
	}
	return s.scenario, nil
}

type swapper struct {
	scenario Scenario
	to       infrastructure
	class    *clusterv1.ClusterClass
	graphs   []*unstructured.Unstructured
	// templates are the user's that are used as they are.
	templates []*unstructured.Unstructured
}

func (s *swapper) notice(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.scenario.Notices, text) {
		s.scenario.Notices = append(s.scenario.Notices, text)
	}
}

// decode reads an object of Cluster API's present version.
func decode(object *unstructured.Unstructured, into any) error {
	what := object.GetKind() + " " + object.GetName()
	if v := object.GroupVersionKind().Version; v != clusterv1.GroupVersion.Version {
		return fmt.Errorf("%s is of API version %s: the lab reads %s only; a management cluster with "+
			"Cluster API v1.11 or newer shows it in that version",
			what, v, clusterv1.GroupVersion.Version)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}

func ofKind(objects []*unstructured.Unstructured, group, kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, o := range objects {
		if gvk := o.GroupVersionKind(); gvk.Group == group && gvk.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// findObject returns an object; nil if there is none.
func findObject(
	objects []*unstructured.Unstructured, group, kind, name string,
) *unstructured.Unstructured {
	for _, o := range ofKind(objects, group, kind) {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

func (s *swapper) readCluster(objects []*unstructured.Unstructured) error {
	found := ofKind(objects, clusterv1.GroupVersion.Group, "Cluster")
	if len(found) != 1 {
		return fmt.Errorf("the manifests hold %d Clusters: give exactly one", len(found))
	}
	s.scenario.Cluster = &clusterv1.Cluster{}
	if err := decode(found[0], s.scenario.Cluster); err != nil {
		return err
	}
	if !s.scenario.Cluster.Spec.Topology.IsDefined() {
		return fmt.Errorf("the Cluster %s has no spec.topology: only Clusters made from a ClusterClass can be upgraded by one change", found[0].GetName())
	}
	return nil
}

func (s *swapper) readClass(objects []*unstructured.Unstructured) error {
	key := s.scenario.Cluster.GetClassKey()
	for _, o := range ofKind(objects, clusterv1.GroupVersion.Group, "ClusterClass") {
		if o.GetName() == key.Name && (o.GetNamespace() == "" || key.Namespace == "" || o.GetNamespace() == key.Namespace) {
			s.class = &clusterv1.ClusterClass{}
			// Everything stands in one namespace, the class's, so that UpgradeGraphs that name it keep their meaning.
			s.scenario.Namespace = key.Namespace
			if s.scenario.Namespace == "" {
				s.scenario.Namespace = metav1.NamespaceDefault
			}
			return decode(o, s.class)
		}
	}
	return fmt.Errorf("the manifests do not hold ClusterClass %s, which Cluster %s is made from", key.Name, s.scenario.Cluster.Name)
}

// readGraphs decides where plans come from: as the class says, but an extension other than ours cannot run here.
func (s *swapper) readGraphs(objects []*unstructured.Unstructured) error {
	external := &s.class.Spec.Upgrade.External.GenerateUpgradePlanExtension
	if *external == "" {
		return nil
	}
	s.graphs = ofKind(objects, v1alpha1.GroupVersion.Group, "UpgradeGraph")
	if len(s.graphs) == 0 {
		return fmt.Errorf("ClusterClass %s takes its upgrade plans from the extension %q, which does not run here: add an UpgradeGraph that serves the class", s.class.Name, *external)
	}
	ours := hookserver.GenerateUpgradePlanHandler + "." + setup.ExtensionName
	if *external != ours {
		s.notice("upgrade plans come from windlass and the UpgradeGraph, not from the extension %q", *external)
	}
	*external = ours
	return nil
}

// cleanCluster removes what a live cluster's manifest has beyond what its owner wrote.
func (s *swapper) cleanCluster() {
	c := s.scenario.Cluster
	annotations := map[string]string{}
	for key, value := range c.Annotations {
		switch key {
		case corev1.LastAppliedConfigAnnotation, runtimev1.PendingHooksAnnotation, clusterv1.ClusterTopologyUpgradeStepAnnotation:
		default:
			if strings.HasPrefix(key, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
				s.notice("the annotation %s, which holds upgrades back, is left out", key)
				continue
			}
			annotations[key] = value
		}
	}
	for i := range c.Spec.Topology.Workers.MachineDeployments {
		md := &c.Spec.Topology.Workers.MachineDeployments[i]
		for _, key := range []string{clusterv1.ClusterTopologyDeferUpgradeAnnotation, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation} {
			if _, held := md.Metadata.Annotations[key]; held {
				s.notice("the annotation %s of %s, which would hold the upgrade back, is left out", key, md.Name)
				delete(md.Metadata.Annotations, key)
			}
		}
	}
	c.ObjectMeta = metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: annotations}
	c.Status = clusterv1.ClusterStatus{}
	c.Spec.InfrastructureRef, c.Spec.ControlPlaneRef, c.Spec.ControlPlaneEndpoint = clusterv1.ContractVersionedObjectReference{}, clusterv1.ContractVersionedObjectReference{}, clusterv1.APIEndpoint{}
	c.Spec.Topology.ClassRef.Namespace = ""
	if c.Spec.Paused != nil && *c.Spec.Paused {
		s.notice("the Cluster is paused; here it is not")
	}
	c.Spec.Paused = nil
	if n := len(c.Spec.Topology.Workers.MachinePools); n > 0 {
		s.notice("MachinePools (%d of them) are left out: the lab upgrades none here", n)
		c.Spec.Topology.Workers.MachinePools = nil
	}
	s.class.Spec.Workers.MachinePools = nil
	s.class.ObjectMeta = metav1.ObjectMeta{Name: s.class.Name, Labels: s.class.Labels}
	s.class.Status = clusterv1.ClusterClassStatus{}
}

// swapTemplates points the class to in-memory infrastructure, and keeps the kubeadm templates.
func (s *swapper) swapTemplates(objects []*unstructured.Unstructured) error {
	spec := &s.class.Spec
	s.notice("%s stand for %s and %s", s.to.what,
		strings.TrimSuffix(spec.Infrastructure.TemplateRef.Kind, "Template"), strings.TrimSuffix(spec.ControlPlane.MachineInfrastructure.TemplateRef.Kind, "Template"))
	s.replaceTemplate(objects, &spec.Infrastructure.TemplateRef, s.to.cluster)
	s.replaceTemplate(
		objects, &spec.ControlPlane.MachineInfrastructure.TemplateRef, s.to.controlPlane,
	)
	if kind := spec.ControlPlane.TemplateRef.Kind; kind != "KubeadmControlPlaneTemplate" {
		return fmt.Errorf("ClusterClass %s has control planes of kind %s: "+
			"the lab runs KubeadmControlPlaneTemplate only", s.class.Name, kind)
	}
	if err := s.keepTemplate(objects, controlPlaneGroup, spec.ControlPlane.TemplateRef.Kind, spec.ControlPlane.TemplateRef.Name); err != nil {
		return err
	}
	s.dropRemediation(&spec.ControlPlane.HealthCheck.Remediation.TemplateRef)
	for i := range spec.Workers.MachineDeployments {
		md := &spec.Workers.MachineDeployments[i]
		s.replaceTemplate(objects, &md.Infrastructure.TemplateRef, s.to.worker)
		s.dropRemediation(&md.HealthCheck.Remediation.TemplateRef)
		if ref := md.Bootstrap.TemplateRef; ref.Kind != "KubeadmConfigTemplate" {
			s.notice("bootstrap by %s is replaced by kubeadm's", ref.Kind)
			md.Bootstrap.TemplateRef = reference(bootstrapGroup, "KubeadmConfigTemplate", plainBootstrap)
			continue
		}
		if err := s.keepTemplate(objects, bootstrapGroup, md.Bootstrap.TemplateRef.Kind, md.Bootstrap.TemplateRef.Name); err != nil {
			return err
		}
	}
	return nil
}

// replaceTemplate has a class refer to a template of the lab. A template that the manifests do not
// hold is told: this rehearsal does not need it, and the user's cluster does.
func (s *swapper) replaceTemplate(
	objects []*unstructured.Unstructured, ref *clusterv1.ClusterClassTemplateReference,
	to clusterv1.ClusterClassTemplateReference,
) {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	if findObject(objects, group, ref.Kind, ref.Name) == nil {
		s.notice("the manifests do not hold %s %s, which ClusterClass %s names",
			ref.Kind, ref.Name, s.class.Name)
	}
	*ref = to
}

func (s *swapper) dropRemediation(ref *clusterv1.MachineHealthCheckRemediationTemplateReference) {
	if ref.Kind != "" {
		s.notice("remediation by %s is left out", ref.Kind)
		*ref = clusterv1.MachineHealthCheckRemediationTemplateReference{}
	}
}

func reference(group, kind, name string) clusterv1.ClusterClassTemplateReference {
	return clusterv1.ClusterClassTemplateReference{APIVersion: group + "/v1beta2", Kind: kind, Name: name}
}

// keepTemplate takes a template over, without what only the user's management cluster could provide.
func (s *swapper) keepTemplate(objects []*unstructured.Unstructured, group, kind, name string) error {
	if slices.ContainsFunc(s.templates, func(t *unstructured.Unstructured) bool { return t.GetKind() == kind && t.GetName() == name }) {
		return nil
	}
	o := findObject(objects, group, kind, name)
	if o == nil {
		return fmt.Errorf("the manifests do not hold %s %s, which ClusterClass %s names",
			kind, name, s.class.Name)
	}
	if v := o.GroupVersionKind().Version; v != clusterv1.GroupVersion.Version {
		return fmt.Errorf("%s %s is of API version %s: the lab reads %s only",
			kind, name, v, clusterv1.GroupVersion.Version)
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(o.GroupVersionKind())
	kept.SetName(name)
	if spec, found := o.DeepCopy().Object["spec"]; found {
		spec = s.dropFilesFromSecrets(spec)
		if s.to.adapt != nil {
			spec = s.to.adapt(spec, s.notice)
		}
		kept.Object["spec"] = spec
	}
	s.templates = append(s.templates, kept)
	return nil
}

// dropFilesFromSecrets removes, anywhere below a value, the items of "files" whose content comes from elsewhere.
func (s *swapper) dropFilesFromSecrets(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			typed[key] = s.dropFilesFromSecrets(inner)
			items, isList := typed[key].([]any)
			if key != "files" || !isList {
				continue
			}
			typed[key] = slices.DeleteFunc(items, func(item any) bool {
				file, _ := item.(map[string]any)
				_, fromElsewhere := file["contentFrom"]
				if fromElsewhere {
					s.notice("file %v is left out: its content is in a Secret", file["path"])
				}
				return fromElsewhere
			})
		}
	case []any:
		for i := range typed {
			typed[i] = s.dropFilesFromSecrets(typed[i])
		}
	}
	return value
}

// swapPatches leaves out patches that need what is not here: the user's infrastructure, or an extension.
func (s *swapper) swapPatches() {
	var kept []clusterv1.ClusterClassPatch
	for _, p := range s.class.Spec.Patches {
		if p.External != nil {
			s.notice("patch %s is left out: its extension does not run here", p.Name)
			continue
		}
		var definitions []clusterv1.PatchDefinition
		for _, d := range p.Definitions {
			group, _, _ := strings.Cut(d.Selector.APIVersion, "/")
			switch {
			case group != controlPlaneGroup && group != bootstrapGroup:
				s.notice("patch %s is left out where it is about infrastructure", p.Name)
			case d.Selector.MatchResources.MachinePoolClass == nil:
				definitions = append(definitions, d)
			default:
				s.notice("patch %s is left out where it is about MachinePools", p.Name)
				// A selector of a class that the ClusterClass does not have is refused.
				d.Selector.MatchResources.MachinePoolClass = nil
				if !equality.Semantic.DeepEqual(d.Selector.MatchResources, clusterv1.PatchSelectorMatch{}) {
					definitions = append(definitions, d)
				}
			}
		}
		p.Definitions = definitions
		if len(p.Definitions) > 0 {
			kept = append(kept, p)
		}
	}
	s.class.Spec.Patches = kept
}

// finish lists everything that is applied, in order.
func (s *swapper) finish() error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.class)
	if err != nil {
		return fmt.Errorf("encoding ClusterClass %s: %w", s.class.Name, err)
	}
	class := &unstructured.Unstructured{Object: content}
	class.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterClass"))
	unstructured.RemoveNestedField(class.Object, "status")
	for _, g := range s.graphs {
		clean := &unstructured.Unstructured{Object: map[string]any{"spec": g.DeepCopy().Object["spec"]}}
		clean.SetGroupVersionKind(g.GroupVersionKind())
		clean.SetName(g.GetName())
		s.scenario.Objects = append(s.scenario.Objects, clean)
	}
	s.scenario.Objects = append(s.scenario.Objects, s.to.templates...)
	s.scenario.Objects = append(s.scenario.Objects, s.templates...)
	s.scenario.Objects = append(s.scenario.Objects, class)
	return nil
}

// template is one of Cluster API's present version.
func template(group, kind, name string, spec map[string]any) *unstructured.Unstructured {
	t := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
	t.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: clusterv1.GroupVersion.Version, Kind: kind})
	t.SetName(name)
	return t
}

// plainTemplate is the bootstrap of workers whose own does not use kubeadm.
func plainTemplate() *unstructured.Unstructured {
	return template(bootstrapGroup, "KubeadmConfigTemplate", plainBootstrap, map[string]any{"format": "cloud-config"})
}

// simulatedTemplates are in-memory machines that come up as fast as the provider can.
func simulatedTemplates() []*unstructured.Unstructured {
	inMemory := func(parts ...string) map[string]any {
		backend := map[string]any{}
		for _, part := range parts {
			backend[part] = map[string]any{"provisioning": map[string]any{"startupDuration": "1s"}}
		}
		return map[string]any{"backend": map[string]any{"inMemory": backend}}
	}
	return []*unstructured.Unstructured{
		template(infrastructureGroup, "DevClusterTemplate", simulatedCluster, inMemory()),
		template(infrastructureGroup, "DevMachineTemplate", simulatedControlPlane, inMemory("vm", "node", "apiServer", "etcd")),
		template(infrastructureGroup, "DevMachineTemplate", simulatedWorker, inMemory("vm", "node")),
		plainTemplate(),
	}
}
