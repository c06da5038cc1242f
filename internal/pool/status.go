package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/version"
)

// DeploymentFacts are what the status of a MachineDeployment is computed from.
type DeploymentFacts struct {
	MachineDeployment *clusterv1.MachineDeployment
	// MachineSets are those that the MachineDeployment controls. They count only if SetsRead.
	MachineSets []*clusterv1.MachineSet
	SetsRead    bool
	// Machines are those that the selector of the MachineDeployment matches.
	Machines []*clusterv1.Machine
	// BootstrapTemplateMissing and InfrastructureTemplateMissing say that a template of spec was
	// not found.
	BootstrapTemplateMissing, InfrastructureTemplateMissing bool
	Now                                                     time.Time
}

// DeploymentStatus is the part of a MachineDeployment's status that follows from DeploymentFacts.
type DeploymentStatus struct {
	Counters DeploymentCounters
	Selector string
	Phase    clusterv1.MachineDeploymentPhase
	// Conditions are in a fixed order and have no transition times: the caller merges them with
	// sigs.k8s.io/cluster-api/util/conditions.Set.
	Conditions []metav1.Condition
}

// DeploymentCounters are sums over MachineSets. A counter is nil if no MachineSet reports it.
type DeploymentCounters struct {
	Replicas, Ready, Available, UpToDate *int32
	Versions                             []clusterv1.StatusVersion
}

// Status computes the status. It returns an error if the selector is invalid. If the MachineSets
// could not be read, the counters are those of the MachineDeployment's old status.
func (f DeploymentFacts) Status() (DeploymentStatus, error) {
	selector, err := metav1.LabelSelectorAsSelector(&f.MachineDeployment.Spec.Selector)
	if err != nil {
		return DeploymentStatus{}, fmt.Errorf("reading the selector of MachineDeployment %s: %w",
			objectName(f.MachineDeployment.Namespace, f.MachineDeployment.Name), err)
	}
	counters := CountersOf(f.MachineDeployment.Status)
	if f.SetsRead {
		counters = CountSets(f.MachineSets)
	}
	return DeploymentStatus{
		Counters: counters, Selector: selector.String(), Phase: f.Phase(),
		Conditions: []metav1.Condition{
			f.Available(counters.Available), f.RollingOut(), f.ScalingUp(), f.ScalingDown(),
			f.MachinesReady(), f.MachinesUpToDate(), f.Remediating(), f.Deleting(),
		},
	}, nil
}

// CountersOf returns the counters that status holds.
func CountersOf(status clusterv1.MachineDeploymentStatus) DeploymentCounters {
	return DeploymentCounters{
		Replicas: status.Replicas, Ready: status.ReadyReplicas, Available: status.AvailableReplicas,
		UpToDate: status.UpToDateReplicas, Versions: status.Versions,
	}
}

// Into writes the counters to a status.
func (c DeploymentCounters) Into(status *clusterv1.MachineDeploymentStatus) {
	status.Replicas, status.ReadyReplicas = c.Replicas, c.Ready
	status.AvailableReplicas, status.UpToDateReplicas = c.Available, c.UpToDate
	status.Versions = c.Versions
}

// CountSets adds up the counters in the statuses of MachineSets. nil MachineSets are skipped.
func CountSets(sets []*clusterv1.MachineSet) DeploymentCounters {
	var c DeploymentCounters
	var versions []clusterv1.StatusVersion
	for _, set := range sets {
		if set == nil {
			continue
		}
		c.Replicas = plus(c.Replicas, set.Status.Replicas)
		c.Ready = plus(c.Ready, set.Status.ReadyReplicas)
		c.Available = plus(c.Available, set.Status.AvailableReplicas)
		c.UpToDate = plus(c.UpToDate, set.Status.UpToDateReplicas)
		versions = append(versions, set.Status.Versions...)
	}
	c.Versions = sumVersions(versions)
	return c
}

// plus adds n to sum. nil plus nil is nil.
func plus(sum, n *int32) *int32 {
	if n == nil {
		return sum
	}
	return new(deref(sum) + *n)
}

// sumVersions adds up the replicas of equal versions, lowest version first. What is not a version
// comes last.
func sumVersions(list []clusterv1.StatusVersion) []clusterv1.StatusVersion {
	var sums []clusterv1.StatusVersion
	for _, v := range list {
		if v.Version == "" {
			continue
		}
		i := slices.IndexFunc(
			sums,
			func(s clusterv1.StatusVersion) bool { return s.Version == v.Version },
		)
		if i < 0 {
			sums = append(sums, clusterv1.StatusVersion{Version: v.Version})
			i = len(sums) - 1
		}
		sums[i].Replicas += v.Replicas
	}
	slices.SortStableFunc(
		sums,
		func(a, b clusterv1.StatusVersion) int { return compareVersions(a.Version, b.Version) },
	)
	return sums
}

// compareVersions sorts semantic versions before anything else. Versions that have no order,
// because their builds are words, are equal.
func compareVersions(a, b string) int {
	x, errX := semver.ParseTolerant(a)
	y, errY := semver.ParseTolerant(b)
	switch {
	case errX == nil && errY != nil:
		return -1
	case errX != nil && errY == nil:
		return 1
	case errX == nil && errY == nil:
		switch c := version.Compare(x, y, version.WithBuildTags()); c {
		case -1, 1:
			return c
		case 0:
		default:
			return 0
		}
	}
	return strings.Compare(a, b)
}

// Phase is the legacy summary of replicas.
func (f DeploymentFacts) Phase() clusterv1.MachineDeploymentPhase {
	md := f.MachineDeployment
	if !f.SetsRead || md.Spec.Replicas == nil {
		return clusterv1.MachineDeploymentPhaseUnknown
	}
	current := deref(CountSets(f.MachineSets).Replicas)
	switch desired := *md.Spec.Replicas; {
	case f.deleting() || desired < current:
		return clusterv1.MachineDeploymentPhaseScalingDown
	case desired > current:
		return clusterv1.MachineDeploymentPhaseScalingUp
	}
	return clusterv1.MachineDeploymentPhaseRunning
}

func (f DeploymentFacts) deleting() bool { return !f.MachineDeployment.DeletionTimestamp.IsZero() }

// desiredReplicas is spec.replicas, or 0 while the MachineDeployment is deleted.
func (f DeploymentFacts) desiredReplicas() int32 {
	if f.deleting() {
		return 0
	}
	return deref(f.MachineDeployment.Spec.Replicas)
}
