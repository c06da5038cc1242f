package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	appsv1 "k8s.io/api/apps/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiversion "sigs.k8s.io/cluster-api/util/version"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// LacksSuffix reports whether the control plane runs the version that is asked of it, and Cluster API takes
// it for upgrading all the same: what it reports has a suffix of its distribution that the version asked
// for lacks. reported is the version that it reports.
func LacksSuffix(o Objects) (asked version.Version, reported string, ok bool) {
	if o.ControlPlane == nil {
		return version.Version{}, "", false
	}
	asked = capi.VersionAt(o.ControlPlane, "spec", "version")
	if asked.IsZero() {
		return asked, "", false
	}
	for _, r := range capi.ReportedVersions(o.ControlPlane) {
		v, err := version.Parse(r.Version)
		if err != nil || !asked.IsReachedBy(v) {
			return asked, "", false // It is on its way, and no suffix is the reason.
		}
		if reported == "" && isLower(r.Version, asked.String()) {
			reported = r.Version
		}
	}
	return asked, reported, reported != ""
}

// isLower compares as Cluster API does: v1.33.1-k0s.0 is before v1.33.1 and v1.33.1+k0s.0, which are not before
// each other.
func isLower(reported, asked string) bool {
	r, err := semver.ParseTolerant(reported)
	if err != nil {
		return false
	}
	a, err := semver.ParseTolerant(asked)
	return err == nil && capiversion.Compare(a, r, capiversion.WithBuildTags()) > 0
}

// cutSuffix returns a version without its suffix, and the suffix with its sign, such as -k0s.0.
func cutSuffix(v string) (release, suffix string) {
	if i := strings.IndexAny(v, "-+"); i >= 0 {
		return v[:i], v[i:]
	}
	return v, ""
}

// SuffixHold returns why the workers of a Cluster do not follow its control plane to a version: Cluster API
// takes the control plane for upgrading, see LacksSuffix, and creates no new Machines for MachineDeployments
// meanwhile. ok is false if to has the provider's kind of suffix, if the check is off or skipped, and if windlass manager drives the Cluster, which compares versions by what they mean.
func SuffixHold(o Objects, a Around, to version.Version) (s Standstill, ok bool) {
	asked, reported, ok := LacksSuffix(o)
	if !ok || a.OwnEngine || strings.Contains(to.String(), "-") {
		return Standstill{}, false
	}
	topology := o.Cluster.Spec.Topology.IsDefined()
	if !topology && slices.ContainsFunc(a.Core, func(d appsv1.Deployment) bool { return !checksControlPlane(&d) }) {
		return Standstill{}, false
	}
	held := text.Some{Most: shownHeld}
	for _, md := range o.MachineDeployments {
		if topology || !skipsCheck(md) {
			held.Add(md.Name)
		}
	}
	if held.Len() == 0 {
		return Standstill{}, false
	}
	release, _ := cutSuffix(to.String())
	_, suffix := cutSuffix(reported)
	fix := fmt.Sprintf("write the version as the provider reports it, with the suffix %s (%s), or use a release of "+
		"the provider that reports the version asked for", suffix, release+suffix)
	if !topology {
		fix += fmt.Sprintf("; or annotate the MachineDeployments for this upgrade with %s=%s",
			clusterv1.MachineSetSkipPreflightChecksAnnotation, clusterv1.MachineSetPreflightCheckControlPlaneIsStable)
	}
	return Standstill{
		Subject: o.ControlPlane.GetKind() + " " + o.ControlPlane.GetName(),
		Failure: Failure{Fix: fix, Message: fmt.Sprintf(
			"it asks for %s and reports %s, which differ by the suffix only: Cluster API takes that for an upgrade "+
				"that never ends, and its check %s holds back new machines of MachineDeployment %s",
			asked, reported, clusterv1.MachineSetPreflightCheckControlPlaneIsStable, held.Join(", "))},
	}, true
}

// shownHeld bounds the MachineDeployments that a message names.
const shownHeld = 5

// checksControlPlane reports whether a core manager runs the check ControlPlaneIsStable, as it does by default.
func checksControlPlane(d *appsv1.Deployment) bool {
	on, problem := capi.FeatureGates(d)
	if state, named := on["MachineSetPreflightChecks"]; problem == "" && named && !state {
		return false
	}
	values := capi.FlagValues(d, "machineset-preflight-checks")
	return len(values) == 0 || slices.ContainsFunc(values, namesCheck)
}

// skipsCheck reports whether an annotation of a MachineDeployment, which its MachineSets get, skips the check.
func skipsCheck(md *clusterv1.MachineDeployment) bool {
	return namesCheck(md.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation])
}

// namesCheck reports whether a list with commas has the check ControlPlaneIsStable, or all.
func namesCheck(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		check := clusterv1.MachineSetPreflightCheck(strings.TrimSpace(name))
		if check == clusterv1.MachineSetPreflightCheckAll ||
			check == clusterv1.MachineSetPreflightCheckControlPlaneIsStable {
			return true
		}
	}
	return false
}
