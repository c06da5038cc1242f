package pool

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/version"

	ours "github.com/windlass-dev/windlass/pkg/version"
)

// kubeletSkew is how many minors a kubelet may be behind the API server:
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const kubeletSkew = 3

// Checks are names of preflight checks.
type Checks = sets.Set[clusterv1.MachineSetPreflightCheck]

// Preflight is what the checks read that pass before a MachineSet creates or remediates Machines.
type Preflight struct {
	MachineSet *clusterv1.MachineSet
	Cluster    *clusterv1.Cluster
	// ControlPlane is the object that spec.controlPlaneRef of Cluster names. It may be nil unless
	// Needed.
	ControlPlane *unstructured.Unstructured
	// Enabled are the checks that the manager runs, Skipped those that SkippedChecks returns.
	Enabled, Skipped Checks
	// ClusterTopology is Cluster API's feature gate of that name.
	ClusterTopology bool
}

// SkipsByTemplate reports whether the bootstrap template says which checks are skipped, because the
// MachineSet does not.
func SkipsByTemplate(set *clusterv1.MachineSet) bool {
	return set.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation] == "" &&
		set.Spec.Template.Spec.Bootstrap.ConfigRef.IsDefined()
}

// SkippedChecks returns the checks that are skipped: names, separated by commas, in the annotation
// machineset.cluster.x-k8s.io/skip-preflight-checks of the MachineSet. If SkipsByTemplate, they are
// in the same annotation of the bootstrap template, whose annotations template has.
func SkippedChecks(set *clusterv1.MachineSet, template map[string]string) Checks {
	list := set.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation]
	if SkipsByTemplate(set) {
		list = template[clusterv1.MachineSetSkipPreflightChecksAnnotation]
	}
	skipped := sets.New[clusterv1.MachineSetPreflightCheck]()
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			skipped.Insert(clusterv1.MachineSetPreflightCheck(name))
		}
	}
	return skipped
}

// Needed reports whether any check runs, and so whether the control plane must be read.
func (p Preflight) Needed() bool {
	return len(p.Enabled) > 0 && !p.Skipped.Has(clusterv1.MachineSetPreflightCheckAll) &&
		p.Cluster.Spec.ControlPlaneRef.IsDefined()
}

// Runs reports whether a check is enabled and not skipped.
func (p Preflight) Runs(check clusterv1.MachineSetPreflightCheck) bool {
	const all = clusterv1.MachineSetPreflightCheckAll
	return (p.Enabled.Has(all) || p.Enabled.Has(check)) && !p.Skipped.Has(all) && !p.Skipped.Has(check)
}

// Failures returns the messages of the checks that fail. All pass if the control plane has no
// spec.version. It returns an error if a version cannot be read.
func (p Preflight) Failures() ([]string, error) {
	if !p.Needed() {
		return nil, nil
	}
	text, ok, err := unstructured.NestedString(p.ControlPlane.Object, "spec", "version")
	if err != nil {
		return nil, p.unreadable("spec.version", err)
	}
	if !ok {
		return nil, nil
	}
	control, err := semver.ParseTolerant(text)
	if err != nil {
		return nil, p.unreadable("spec.version", err)
	}
	var failures []string
	if p.Runs(clusterv1.MachineSetPreflightCheckControlPlaneIsStable) {
		message, err := p.unstable(text, control)
		if err != nil {
			return nil, err
		}
		failures = failed(failures, clusterv1.MachineSetPreflightCheckControlPlaneIsStable, message)
	}
	wanted := p.MachineSet.Spec.Template.Spec.Version
	if wanted == "" {
		return failures, nil
	}
	worker, err := semver.ParseTolerant(wanted)
	if err != nil {
		return nil, fmt.Errorf("reading spec.template.spec.version %q of MachineSet %s: %w",
			wanted, objectName(p.MachineSet.Namespace, p.MachineSet.Name), err)
	}
	for _, check := range []struct {
		name    clusterv1.MachineSetPreflightCheck
		message string
	}{
		{clusterv1.MachineSetPreflightCheckKubernetesVersionSkew, kubeletProblem(control, worker)},
		{clusterv1.MachineSetPreflightCheckKubeadmVersionSkew, p.kubeadmProblem(control, worker)},
		{clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew, p.topologyProblem(text, wanted)},
	} {
		if p.Runs(check.name) {
			failures = failed(failures, check.name, check.message)
		}
	}
	return failures, nil
}

// failed adds the message of a check; no message means that it passed.
func failed(failures []string, check clusterv1.MachineSetPreflightCheck, message string) []string {
	if message == "" {
		return failures
	}
	return append(failures, fmt.Sprintf("%s (%q preflight check failed)", message, check))
}

func (p Preflight) controlPlaneName() string {
	c := p.ControlPlane
	return c.GetKind() + " " + objectName(c.GetNamespace(), c.GetName())
}

func (p Preflight) unreadable(field string, err error) error {
	return fmt.Errorf("reading %s of %s: %w", field, p.controlPlaneName(), err)
}

// unstable says why the control plane is not stable: it has to be upgraded, is created, or is being
// upgraded. text and wanted are its spec.version.
func (p Preflight) unstable(text string, wanted semver.Version) (string, error) {
	if step := p.pendingVersion(text); step != "" {
		return fmt.Sprintf("%s has a pending version upgrade to %s", p.controlPlaneName(), step), nil
	}
	reported, err := reportedVersions(p.ControlPlane)
	if err != nil {
		return "", p.unreadable("the versions in the status", err)
	}
	if len(reported) == 0 {
		return p.controlPlaneName() + " is provisioning", nil
	}
	for _, v := range reported {
		// Builds that have no order are different versions, too.
		if version.Compare(wanted, v, version.WithBuildTags()) > 0 && !isReached(wanted, v) {
			return p.controlPlaneName() + " is upgrading", nil
		}
	}
	return "", nil
}

// isReached knows the builds that Cluster API does not: distributions spell them in several ways.
func isReached(wanted, reported semver.Version) bool {
	w, errWanted := ours.Parse(wanted.String())
	r, errReported := ours.Parse(reported.String())
	return errWanted == nil && errReported == nil && w.IsReachedBy(r)
}

// pendingVersion returns the version that the topology of the Cluster has and the control plane
// does not have yet; empty if there is none. While the Cluster is upgraded in steps, the version of
// the current step is no pending one.
func (p Preflight) pendingVersion(controlPlane string) string {
	if !p.ClusterTopology || !p.Cluster.Spec.Topology.IsDefined() {
		return ""
	}
	step := p.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation]
	target := p.Cluster.Spec.Topology.Version
	switch {
	case target == controlPlane || step == controlPlane:
		return ""
	case step != "":
		return step
	}
	return target
}

// reportedVersions returns status.versions of a control plane, lowest first, or else
// status.version.
func reportedVersions(controlPlane *unstructured.Unstructured) ([]semver.Version, error) {
	list, _, err := unstructured.NestedSlice(controlPlane.Object, "status", "versions")
	if err != nil {
		return nil, err
	}
	var reported []semver.Version
	for i, item := range list {
		v, err := reportedVersion(item)
		if err != nil {
			return nil, fmt.Errorf("versions[%d]: %w", i, err)
		}
		if i > 0 && version.Compare(v, reported[i-1], version.WithBuildTags()) < 0 {
			return nil, fmt.Errorf("versions[%d]: v%s is lower than the version before it", i, v)
		}
		reported = append(reported, v)
	}
	if len(reported) > 0 {
		return reported, nil
	}
	text, _, err := unstructured.NestedString(controlPlane.Object, "status", "version")
	if text == "" || err != nil {
		return nil, err
	}
	v, err := semver.ParseTolerant(text)
	if err != nil {
		return nil, fmt.Errorf("version: %w", err)
	}
	return []semver.Version{v}, nil
}

// reportedVersion reads one item of status.versions.
func reportedVersion(item any) (semver.Version, error) {
	entry, _ := item.(map[string]any)
	text, _, err := unstructured.NestedString(entry, "version")
	if err != nil {
		return semver.Version{}, err
	}
	if n, _, err := unstructured.NestedInt64(entry, "replicas"); err == nil && n < 0 {
		return semver.Version{}, fmt.Errorf("%d replicas is a negative number", n)
	}
	return semver.ParseTolerant(text)
}

// kubeletProblem compares minors with Kubernetes' policy for kubelets.
func kubeletProblem(control, worker semver.Version) string {
	const rule = "MachineSet version (%s) and ControlPlane version (%s) do not conform to the " +
		"kubernetes version skew policy as MachineSet version is "
	switch {
	case worker.Minor > control.Minor:
		return fmt.Sprintf(rule+"higher than ControlPlane version", worker, control)
	case worker.Minor+kubeletSkew < control.Minor:
		return fmt.Sprintf(rule+"more than %d minor versions older than the ControlPlane version",
			worker, control, kubeletSkew)
	}
	return ""
}

// kubeadmProblem compares minors with the rule of kubeadm, which joins only nodes of its own minor.
func (p Preflight) kubeadmProblem(control, worker semver.Version) string {
	ref := p.MachineSet.Spec.Template.Spec.Bootstrap.ConfigRef
	if ref.APIGroup != bootstrapv1.GroupVersion.Group || ref.Kind != "KubeadmConfigTemplate" ||
		control.Minor == worker.Minor {
		return ""
	}
	return fmt.Sprintf("MachineSet version (%s) and ControlPlane version (%s) do not conform to "+
		"kubeadm version skew policy as kubeadm only supports joining with the same major+minor "+
		"version as the control plane", worker, control)
}

// topologyProblem compares versions in Clusters with a topology, in which the version of the
// MachineSet follows that of the control plane.
func (p Preflight) topologyProblem(control, worker string) string {
	if !p.ClusterTopology || !p.Cluster.Spec.Topology.IsDefined() || control == worker {
		return ""
	}
	return fmt.Sprintf("MachineSet version (%s) is not yet the same as the ControlPlane version (%s), "+
		"waiting for version to be propagated to the MachineSet", worker, control)
}
