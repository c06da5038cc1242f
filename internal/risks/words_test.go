package risks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// TestWords: a risk names the versions of etcd where they counted, and nothing where they did not.
func TestWords(t *testing.T) {
	t.Parallel()
	steps := risks.Steps([]plan.Operation{
		{Kind: plan.ControlPlaneUpgrade, From: parse("v1.33.7"), To: parse("v1.34.3")},
		{Kind: plan.WorkersUpgrade, From: parse("v1.33.7"), To: parse("v1.34.3")},
		{Kind: plan.ControlPlaneUpgrade, From: parse("v1.33.7"), To: parse("v1.34.1")},
	})
	want := map[string]string{
		"etcd-36-zombie-members": "CP v1.33.7 -> v1.34.3 (etcd v3.5.24 -> v3.6.5), " +
			"CP v1.33.7 -> v1.34.1 (etcd v3.5.24 -> v3.6.4)",
		"statefulset-134-rollout": "CP v1.33.7 -> v1.34.1",
	}
	for _, f := range risks.BuiltIn().OfAll(risks.Facts{}, steps) {
		where, named := want[f.ID]
		if !named {
			continue
		}
		delete(want, f.ID)
		if diff := cmp.Diff(where, f.Where()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.ID, diff)
		}
		etcd := ""
		if strings.Contains(where, "etcd") {
			etcd = " (etcd v3.5.24 -> v3.6.5)"
		}
		words := f.ID + ": " + strings.TrimSuffix(f.Summary, ".") + etcd
		if diff := cmp.Diff(words, f.At[0].String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.ID, diff)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
	if got, want := steps[1].String(), "workers v1.33.7 -> v1.34.3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKinds: each kind of machine is there once, in an order that does not depend on that of the Nodes.
func TestKinds(t *testing.T) {
	t.Parallel()
	host := risks.HostOf(&corev1.NodeSystemInfo{
		KernelVersion: "6.1", ContainerRuntimeVersion: "containerd://2.1.0", OSImage: "Debian",
	})
	want := risks.Host{Kernel: "6.1", Runtime: "containerd://2.1.0", OS: "Debian"}
	if diff := cmp.Diff(want, host); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	none, unverified := risks.HostOf(nil), host
	unverified.Unverified = true
	sorted := []risks.Host{none, host, unverified}
	for _, hosts := range [][]risks.Host{
		{host, unverified, none, host}, {unverified, host, none, unverified}, {none, unverified, host},
	} {
		if diff := cmp.Diff(sorted, risks.Kinds(hosts)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
