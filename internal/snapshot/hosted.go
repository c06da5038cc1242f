package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// hostedStandstill returns why a control plane that runs as Pods, without Machines, does not reach the version
// asked of it: it is not available.
func hostedStandstill(o Objects) (s Standstill, ok bool) {
	if !mayRollOut(o) || !isHosted(o.ControlPlane) || slices.ContainsFunc(o.Machines, func(m *clusterv1.Machine) bool { return capi.IsControlPlane(m) }) {
		return Standstill{}, false
	}
	asked := capi.VersionAt(o.ControlPlane, "spec", "version")
	reported, err := observedControlPlane(o.ControlPlane, asked)
	if err != nil || reported.IsZero() {
		return Standstill{}, false
	}
	away := unavailable(o.ControlPlane)
	if away == nil {
		return Standstill{}, false
	}
	kind, name := o.ControlPlane.GetKind(), o.ControlPlane.GetName()
	since := away.LastTransitionTime.UTC()
	return Standstill{
		Subject: kind + " " + name, Since: since,
		Failure: Failure{
			Message: fmt.Sprintf("its rollout makes no progress: it asks for %s and has %s, and is not available "+
				"since %s (%s)", asked, reported, since.Format(time.RFC3339), text.Bound(cause(away), maxCauseBytes)),
			Fix: fixHosted(o.ControlPlane),
		},
	}, true
}

// maxCauseBytes bounds what is shown of a provider's message.
const maxCauseBytes = 300

func cause(c *metav1.Condition) string {
	if message := strings.Join(strings.Fields(c.Message), " "); message != "" {
		return message
	}
	return c.Reason
}

// unavailable returns the condition that says that a control plane is not available; nil without one.
func unavailable(controlPlane *unstructured.Unstructured) *metav1.Condition {
	for _, kind := range []string{clusterv1.AvailableCondition, clusterv1.ReadyCondition} {
		if c := capi.FindCondition(controlPlane, kind); c != nil {
			if c.Status == metav1.ConditionFalse {
				return c
			}
			return nil
		}
	}
	return nil
}

// fixHosted returns the way out. An etcd of k0smotron has a version of its own, which a person may have set too
// far ahead: it crashes on data of two minors before (k0smotron#1578).
func fixHosted(controlPlane *unstructured.Unstructured) string {
	fix := fmt.Sprintf("see why its Pods are not Ready: kubectl -n %s get pods, and the log of those that restart",
		controlPlane.GetNamespace())
	for _, path := range [][]string{{"spec", "storage", "etcd", "image"}, {"spec", "etcd", "image"}} {
		image, _, _ := unstructured.NestedString(controlPlane.Object, path...)
		_, tag, _ := strings.Cut(image, ":v")
		v, err := version.Parse("v" + tag)
		if err != nil || v.Minor().Minor == 0 {
			continue
		}
		before := version.Minor{Major: v.Minor().Major, Minor: v.Minor().Minor - 1}
		return fix + fmt.Sprintf("; if etcd crashes because its data are older than those of %s, set %s to a release "+
			"of %s, wait until it is Ready, and then set %s; keep its volume",
			before, strings.Join(path, "."), before, v)
	}
	return fix
}

// isHosted reports whether a control plane says that it has no Machines (contract of control plane providers).
func isHosted(controlPlane *unstructured.Unstructured) bool {
	hosted, _, _ := unstructured.NestedBool(controlPlane.Object, "status", "externalManagedControlPlane")
	return hosted
}
