package capi

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/pkg/version"
)

// There are two rules for the version of a group, because two questions are asked about it.
//
// A plan asks from which version the group starts. Its answer must not depend on how a distribution
// builds its kubelets, so a version that a kubelet reports counts only if it is of another patch than
// the template ([PlannedVersion]).
//
// An engine asks whether the group has arrived, and what its oldest kubelet is, because skew is about
// kubelets. So every machine counts by what its kubelet reports, builds included ([RunningVersion]).
//
// Both rules are about values. Package snapshot walks over the Machines of groups: groups.go for plans,
// chain.go for the engine.

// Reported is a version that an object reports about itself, with the field that contains it.
type Reported struct {
	Version, Field string
}

// PlannedVersion returns the oldest version known of a group: the template's or an older one that is
// reported, and the index of that in reported, or -1. Reports of the template's patch, and reports that
// are no version, do not count: distributions append words of their own (v1.31.2-eks-7f9249a). Of
// several builds of one patch the last counts. The version is zero if template is zero and nothing is
// reported.
func PlannedVersion(template version.Version, reported []string) (oldest version.Version, index int) {
	oldest, index = template, -1
	for i, r := range slices.Backward(reported) {
		v, err := version.Parse(r)
		if err != nil || v.SamePatch(oldest) {
			continue
		}
		if oldest.IsZero() || version.Compare(v, oldest) == version.Less {
			oldest, index = v, i
		}
	}
	return oldest, index
}

// RunningVersion returns the version that a machine runs: that of its kubelet, or the one that it was
// made for if the kubelet reports none. The version is zero if neither is a version. arrived reports
// whether the machine was made for wanted and its kubelet runs wanted.
func RunningVersion(wanted version.Version, made, kubelet string) (running version.Version, arrived bool) {
	planned, errMade := version.Parse(made)
	running, errRunning := version.Parse(kubelet)
	if errRunning != nil {
		running = planned
	}
	return running, errMade == nil && planned.Equal(wanted) && wanted.RunBy(running)
}

// Kubelet returns the version that a Machine's kubelet reports, as it writes it; empty if it reports none.
func Kubelet(m *clusterv1.Machine) string {
	if m.Status.NodeInfo == nil {
		return ""
	}
	return m.Status.NodeInfo.KubeletVersion
}

// ReportedVersion returns the version that a Machine's kubelet reports, or the one that the Machine was
// made for if the kubelet reports none.
func ReportedVersion(m *clusterv1.Machine) Reported {
	if kubelet := Kubelet(m); kubelet != "" {
		return Reported{Version: kubelet, Field: "status.nodeInfo.kubeletVersion"}
	}
	return Reported{Version: m.Spec.Version, Field: "spec.version"}
}

// ReportedVersions returns the versions that a control plane object reports: status.versions of its
// contract, or status.version, which contracts had before. Providers are free in what else they report:
// entries of another type are omitted.
func ReportedVersions(controlPlane *unstructured.Unstructured) []Reported {
	entries, _, err := unstructured.NestedSlice(controlPlane.Object, "status", "versions")
	var reported []Reported
	for i, entry := range entries {
		fields, ok := entry.(map[string]any)
		v, isText := fields["version"].(string)
		if err == nil && ok && isText && v != "" {
			reported = append(reported, Reported{Version: v, Field: fmt.Sprintf("status.versions[%d].version", i)})
		}
	}
	if len(reported) > 0 {
		return reported
	}
	if v, _, err := unstructured.NestedString(controlPlane.Object, "status", "version"); err == nil && v != "" {
		return []Reported{{Version: v, Field: "status.version"}}
	}
	return nil
}

// VersionAt reads the version in a field of an object; zero if there is none, or it cannot be parsed.
func VersionAt(object *unstructured.Unstructured, path ...string) version.Version {
	text, _, _ := unstructured.NestedString(object.Object, path...)
	v, err := version.Parse(text)
	if err != nil {
		return version.Version{}
	}
	return v
}
