package intervention_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/intervention"
	"github.com/windlass-dev/windlass/internal/status"
)

// TestDecide has one folder of tables: what a verb writes for everything that can be on the
// objects, or why it is refused.
func TestDecide(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		var facts status.Facts
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "objects":
				facts = parse(t, d.Input)
				return ""
			case "decide":
				verb, kind, name := d.CmdArgs[0].Key, d.CmdArgs[1].Key, d.CmdArgs[2].Key
				alone := d.HasArg("alone")
				return decide(t, facts, intervention.Verb(verb), intervention.Kind(kind), name, alone)
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

func parse(t *testing.T, text string) status.Facts {
	t.Helper()
	var f status.Facts
	decode := func(document string, into any) {
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		decode(document, &object.Object)
		switch object.GetKind() {
		case "Cluster":
			f.Cluster = &clusterv1.Cluster{}
			decode(document, f.Cluster)
		case "MachineDeployment":
			f.MachineDeployments = append(f.MachineDeployments, &clusterv1.MachineDeployment{})
			decode(document, f.MachineDeployments[len(f.MachineDeployments)-1])
		case "Machine":
			f.Machines = append(f.Machines, &clusterv1.Machine{})
			decode(document, f.Machines[len(f.Machines)-1])
		default:
			f.ControlPlane = object
		}
	}
	return f
}

func decide(
	t *testing.T, of status.Facts, verb intervention.Verb, kind intervention.Kind, name string, alone bool,
) string {
	t.Helper()
	f := intervention.Facts{Facts: of, Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	f.Target = intervention.Target{Kind: kind, Cluster: of.Cluster.Name}
	if kind == intervention.Machine || alone {
		f.Facts = status.Facts{}
		f.Cluster = of.Cluster
	}
	if alone {
		f.Cluster = nil
	}
	switch kind {
	case intervention.Cluster:
		f.Target.GVK, f.Target.Object = clusterv1.GroupVersion.WithKind("Cluster"), of.Cluster
		f.Cluster = of.Cluster
	case intervention.ControlPlane:
		f.Target.GVK, f.Target.Object = of.ControlPlane.GroupVersionKind(), of.ControlPlane
	case intervention.MachineDeployment:
		i := slices.IndexFunc(of.MachineDeployments, func(o *clusterv1.MachineDeployment) bool { return o.Name == name })
		f.Target.GVK, f.Target.Object = capi.MachineDeploymentKind, of.MachineDeployments[i]
	case intervention.Machine:
		i := slices.IndexFunc(of.Machines, func(o *clusterv1.Machine) bool { return o.Name == name })
		f.Target.GVK, f.Target.Object = clusterv1.GroupVersion.WithKind("Machine"), of.Machines[i]
		f.Machines = of.Machines[i : i+1]
	}
	plan, err := intervention.Decide(verb, f)
	if err != nil {
		return "refused: " + err.Error()
	}
	var out strings.Builder
	for _, c := range plan.Changes {
		fmt.Fprintf(&out, "%s @%s:", c, c.ResourceVersion)
		if c.Paused != nil {
			fmt.Fprintf(&out, " paused=%t", *c.Paused)
		}
		for _, key := range slices.Sorted(maps.Keys(c.Annotations)) {
			fmt.Fprintf(&out, " %s=%v", key, c.Annotations[key] != nil)
		}
		fmt.Fprintf(&out, " (%s)\n", c.Why)
	}
	for _, list := range []struct {
		name  string
		lines []string
	}{{"done", plan.Done}, {"skipped", plan.Skipped}, {"next", plan.Next}} {
		for _, line := range list.lines {
			fmt.Fprintf(&out, "%s: %s\n", list.name, line)
		}
	}
	return out.String()
}
