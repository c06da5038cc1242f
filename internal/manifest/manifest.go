package manifest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Bounds on what is read. They are far above what people keep in git and far below what would exhaust memory.
const (
	// MaxFileBytes bounds one file.
	MaxFileBytes = 16 << 20
	// MaxTotalBytes bounds all files of one run together.
	MaxTotalBytes = 64 << 20
	// MaxObjects bounds the objects of one run, skipped ones included.
	MaxObjects = 50_000
)

// Set is what planning reads from manifests. Every list is in the order in which its objects were read.
type Set struct {
	Clusters           []*clusterv1.Cluster
	ClusterClasses     []*clusterv1.ClusterClass
	MachineDeployments []*clusterv1.MachineDeployment
	MachinePools       []*clusterv1.MachinePool
	Machines           []*clusterv1.Machine
	UpgradeGraphs      []*v1alpha1.UpgradeGraph
	// ControlPlaneTemplates are KubeadmControlPlaneTemplates, MachineHealthChecks, UpdatePolicies and Updaters are for what happens to machines, not for the plan itself.
	ControlPlaneTemplates []*unstructured.Unstructured
	// ConfigTemplates are templates of bootstrap configs of known providers.
	ConfigTemplates     []*unstructured.Unstructured
	MachineHealthChecks []*clusterv1.MachineHealthCheck
	UpdatePolicies      []*v1alpha1.UpdatePolicy
	Updaters            []*v1alpha1.Updater
	// UpgradeGates are for how long an upgrade takes.
	UpgradeGates []*v1alpha1.UpgradeGate
	// ExtensionConfigs, Namespaces, and the Deployments of Cluster API's managers and of cluster autoscalers
	// tell what acts on machines.
	ExtensionConfigs []*runtimev1.ExtensionConfig
	Namespaces       []*corev1.Namespace
	Deployments      []*appsv1.Deployment
	// ControlPlanes are objects of other groups that have a spec.version, such as a KubeadmControlPlane.
	ControlPlanes []*unstructured.Unstructured

	// origins has every object above.
	origins map[metav1.Object]Origin
	// files are the names of the files, in order.
	files []string
	// objects counts what was read, skipped objects included.
	objects int
	// takeRaw, when set, gets every object instead; nothing is decoded into types then.
	takeRaw func(Origin, schema.GroupVersionKind, []byte) error
}

// Origin says where an object was read. The zero Origin means that it was not read from a manifest.
type Origin struct {
	File string
	// Document counts the documents of a file from 1.
	Document int
	// Item counts the items of a List from 1; it is 0 for an object that stands by itself.
	Item int
	// Line is where the document begins, counted from 1.
	Line int
}

// String names the origin as it is spelled in messages.
func (o Origin) String() string {
	if o.Document == 0 {
		return o.File
	}
	text := fmt.Sprintf("%s, document %d", o.File, o.Document)
	if o.Item > 0 {
		text += fmt.Sprintf(", item %d", o.Item)
	}
	if o.Line > 1 {
		text += fmt.Sprintf(" (from line %d)", o.Line)
	}
	return text
}

// OriginOf returns where an object of the set was read.
func (s *Set) OriginOf(object metav1.Object) (Origin, bool) {
	o, known := s.origins[object]
	return o, known
}

// Error says which part of which manifest cannot be used, and why.
type Error struct {
	Origin Origin
	// Field is a path such as spec.topology.version; empty when the fault is in the document as a whole.
	Field string
	// Problem is a sentence without a capital or full stop that also says what would be right.
	Problem string
	// Err is the cause, if there is one.
	Err error
}

func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{e.Origin.String(), e.Field, e.Problem} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }
