package pool_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

const (
	checkStable     = clusterv1.MachineSetPreflightCheckControlPlaneIsStable
	checkKubernetes = clusterv1.MachineSetPreflightCheckKubernetesVersionSkew
	checkKubeadm    = clusterv1.MachineSetPreflightCheckKubeadmVersionSkew
	checkVersion    = clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew
	checkAll        = clusterv1.MachineSetPreflightCheckAll
)

// msControlPlane returns a control plane with a version in spec and versions in status.
func msControlPlane(version string, reported ...any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ControlPlane", "metadata": map[string]any{"name": "cp", "namespace": "ns"},
	}}
	if version != "" {
		object.Object["spec"] = map[string]any{"version": version}
	}
	var versions []any
	for _, v := range reported {
		versions = append(versions, map[string]any{"version": v})
	}
	if len(versions) > 0 {
		object.Object["status"] = map[string]any{"versions": versions}
	}
	return object
}

// withStatusVersion sets status.version, as control planes without status.versions do.
func withStatusVersion(object *unstructured.Unstructured, version any) *unstructured.Unstructured {
	object.Object["status"] = map[string]any{"version": version}
	return object
}

// preflight returns facts with all checks, for a MachineSet with a version and a kubeadm template.
func preflight(version string, controlPlane *unstructured.Unstructured, changes ...func(*pool.Preflight)) pool.Preflight {
	set := msSet(1)
	set.Spec.Template.Spec.Version = version
	set.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfigTemplate", Name: "t",
	}
	cluster := &clusterv1.Cluster{}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "ControlPlane", Name: "cp"}
	p := pool.Preflight{
		MachineSet: set, Cluster: cluster, ControlPlane: controlPlane,
		Enabled: sets.New(checkAll), ClusterTopology: true,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func topologyAt(version, step string) func(*pool.Preflight) {
	return func(p *pool.Preflight) {
		p.Cluster.Spec.Topology.ClassRef.Name = "class"
		p.Cluster.Spec.Topology.Version = version
		p.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: step}
	}
}

func TestPreflightFailures(t *testing.T) {
	t.Parallel()
	const (
		higher = "MachineSet version (1.31.0) and ControlPlane version (1.30.1) do not conform to the kubernetes " +
			"version skew policy as MachineSet version is higher than ControlPlane version " +
			`("KubernetesVersionSkew" preflight check failed)`
		older = "MachineSet version (1.26.9) and ControlPlane version (1.30.1) do not conform to the kubernetes " +
			"version skew policy as MachineSet version is more than 3 minor versions older than the ControlPlane " +
			`version ("KubernetesVersionSkew" preflight check failed)`
		kubeadm = ") and ControlPlane version (1.30.1) do not conform to kubeadm version skew policy as kubeadm only " +
			"supports joining with the same major+minor version as the control plane " +
			`("KubeadmVersionSkew" preflight check failed)`
		behind = "MachineSet version (v1.30.0) is not yet the same as the ControlPlane version (v1.30.1), waiting for " +
			`version to be propagated to the MachineSet ("ControlPlaneVersionSkew" preflight check failed)`
		stable = ` ("ControlPlaneIsStable" preflight check failed)`
	)
	good := msControlPlane("v1.30.1", "v1.30.1")
	skip := func(checks ...clusterv1.MachineSetPreflightCheck) func(*pool.Preflight) {
		return func(p *pool.Preflight) { p.Skipped = sets.New(checks...) }
	}
	enable := func(checks ...clusterv1.MachineSetPreflightCheck) func(*pool.Preflight) {
		return func(p *pool.Preflight) { p.Enabled = sets.New(checks...) }
	}
	for name, test := range map[string]struct {
		facts pool.Preflight
		want  []string
	}{
		"all pass":                  {preflight("v1.30.1", good), nil},
		"older patch":               {preflight("v1.30.0", good), nil},
		"newer patch":               {preflight("v1.30.9", good), nil},
		"no version":                {preflight("", good), nil},
		"nothing enabled":           {preflight("v1.31.0", nil, enable()), nil},
		"all skipped":               {preflight("v1.31.0", nil, skip(checkAll)), nil},
		"control plane unversioned": {preflight("v1.31.0", msControlPlane("")), nil},
		"no control plane": {preflight("v1.31.0", nil, func(p *pool.Preflight) {
			p.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
		}), nil},
		"newer minor": {preflight("v1.31.0", good), []string{higher, "MachineSet version (1.31.0" + kubeadm}},
		"newer minor, kubeadm skipped": {
			preflight("v1.31.0", good, skip(checkKubeadm)), []string{higher},
		},
		"newer minor, one check enabled": {
			preflight("v1.31.0", good, enable(checkKubeadm)), []string{"MachineSet version (1.31.0" + kubeadm},
		},
		"3 minors older": {
			preflight("v1.27.0", good), []string{"MachineSet version (1.27.0" + kubeadm},
		},
		"4 minors older": {preflight("v1.26.9", good, skip(checkKubeadm)), []string{older}},
		"old Kubernetes": {
			preflight("v1.0.0", msControlPlane("v1.2.0", "v1.2.0"), enable(checkKubernetes)), nil,
		},
		"other bootstrap provider": {preflight("v1.29.0", good, func(p *pool.Preflight) {
			p.MachineSet.Spec.Template.Spec.Bootstrap.ConfigRef.APIGroup = "other"
		}), nil},
		"topology, not propagated": {
			preflight("v1.30.0", good, topologyAt("v1.30.1", "")), []string{behind},
		},
		"topology, propagated": {preflight("v1.30.1", good, topologyAt("v1.30.1", "")), nil},
		"topology, gate is off": {
			preflight("v1.30.0", good, topologyAt("v1.31.0", ""), func(p *pool.Preflight) { p.ClusterTopology = false }),
			nil,
		},
		"topology, pending": {
			preflight("v1.30.1", good, topologyAt("v1.31.0", "")),
			[]string{"ControlPlane ns/cp has a pending version upgrade to v1.31.0" + stable},
		},
		"topology, pending step": {
			preflight("v1.30.1", good, topologyAt("v1.33.0", "v1.31.0")),
			[]string{"ControlPlane ns/cp has a pending version upgrade to v1.31.0" + stable},
		},
		"topology, step reached": {preflight("v1.30.1", good, topologyAt("v1.33.0", "v1.30.1")), nil},
		"topology, target reached beyond the step": {
			preflight("v1.30.1", good, topologyAt("v1.30.1", "v1.29.0")), nil,
		},
		"provisioning": {
			preflight("v1.30.1", msControlPlane("v1.30.1")), []string{"ControlPlane ns/cp is provisioning" + stable},
		},
		"provisioning, empty version": {
			preflight("v1.30.1", withStatusVersion(msControlPlane("v1.30.1"), "")),
			[]string{"ControlPlane ns/cp is provisioning" + stable},
		},
		"upgrading": {
			preflight("v1.30.1", msControlPlane("v1.30.1", "v1.30.0", "v1.30.1")),
			[]string{"ControlPlane ns/cp is upgrading" + stable},
		},
		"upgrading, one version": {
			preflight("v1.30.1", withStatusVersion(msControlPlane("v1.30.1"), "v1.29.0")),
			[]string{"ControlPlane ns/cp is upgrading" + stable},
		},
		"one version": {preflight("v1.30.1", withStatusVersion(msControlPlane("v1.30.1"), "v1.30.1")), nil},
		"k0s's own words": {
			preflight("v1.30.1", withStatusVersion(msControlPlane("v1.30.1"), "v1.30.1-k0s.0")), nil,
		},
		"newer build": {
			preflight("v1.30.1", msControlPlane("v1.30.1+9", "v1.30.1+10")), nil,
		},
		"other build": {
			preflight("v1.30.1", msControlPlane("v1.30.1+abc", "v1.30.1+xyz")),
			[]string{"ControlPlane ns/cp is upgrading" + stable},
		},
		"unstable, but nobody asks": {
			preflight("v1.30.1", msControlPlane("v1.30.1"), skip(checkStable)), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.facts.Failures()
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the failures differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreflightErrors(t *testing.T) {
	t.Parallel()
	good := msControlPlane("v1.30.1", "v1.30.1")
	negative := msControlPlane("v1.30.1")
	negative.Object["status"] = map[string]any{"versions": []any{
		map[string]any{"version": "v1.30.1", "replicas": int64(-1)},
	}}
	number := msControlPlane("")
	number.Object["spec"] = map[string]any{"version": int64(1)}
	listOfNothing := msControlPlane("v1.30.1")
	listOfNothing.Object["status"] = map[string]any{"versions": "v1.30.1"}
	for name, test := range map[string]struct {
		facts pool.Preflight
		want  string
	}{
		"MachineSet":      {preflight("one", good), `reading spec.template.spec.version "one" of MachineSet ns/set: `},
		"control plane":   {preflight("v1.30.1", msControlPlane("one")), "reading spec.version of ControlPlane ns/cp: "},
		"not a text":      {preflight("v1.30.1", number), "reading spec.version of ControlPlane ns/cp: "},
		"not a list":      {preflight("v1.30.1", listOfNothing), "reading the versions in the status of ControlPlane ns/cp: "},
		"status.versions": {preflight("v1.30.1", msControlPlane("v1.30.1", "one")), "versions[0]: "},
		"type in status.versions": {
			preflight("v1.30.1", msControlPlane("v1.30.1", int64(1))), "versions[0]: ",
		},
		"order of status.versions": {
			preflight("v1.30.1", msControlPlane("v1.30.1", "v1.30.1", "v1.29.0")),
			"versions[1]: v1.29.0 is lower than the version before it",
		},
		"replicas":       {preflight("v1.30.1", negative), "versions[0]: -1 replicas is a negative number"},
		"status.version": {preflight("v1.30.1", withStatusVersion(msControlPlane("v1.30.1"), "one")), "version: "},
		"type of status.version": {
			preflight("v1.30.1", withStatusVersion(msControlPlane("v1.30.1"), int64(1))), "reading the versions",
		},
	} {
		if got, err := test.facts.Failures(); err == nil || !strings.Contains(err.Error(), test.want) || got != nil {
			t.Errorf("%s: got %q and %v, want the error %q", name, got, err, test.want)
		}
	}
}

func TestSkippedChecks(t *testing.T) {
	t.Parallel()
	const key = clusterv1.MachineSetSkipPreflightChecksAnnotation
	template := map[string]string{key: string(checkAll)}
	own := preflight("", nil).MachineSet
	setMark(key, string(checkStable)+", "+string(checkVersion))(own)
	for name, test := range map[string]struct {
		set        *clusterv1.MachineSet
		byTemplate bool
		want       pool.Checks
	}{
		"of the MachineSet": {own, false, sets.New(checkStable, checkVersion)},
		"of the template":   {preflight("", nil).MachineSet, true, sets.New(checkAll)},
		"no template":       {msSet(1), false, nil},
	} {
		if got := pool.SkipsByTemplate(test.set); got != test.byTemplate {
			t.Errorf("%s: by template: %t", name, got)
		}
		got := pool.SkippedChecks(test.set, template)
		if !got.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
