package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/settings"
)

// TestSettings: settings that the Cluster's version lacks are errors, those that the next minor lacks
// warnings, and a version that nobody knows is no OK.
func TestSettings(t *testing.T) {
	t.Parallel()
	const gate = "UserNamespacesPodSecurityStandards=true"
	for name, test := range map[string]struct {
		version, gates, runs string
		want                 []string
	}{
		"the version lacks it": {
			version: "v1.35.5", gates: gate,
			want: []string{"Error KubeadmConfigTemplate t: it is removed in v1.35"},
		},
		"the next minor lacks it": {
			version: "v1.34.8", gates: gate,
			want: []string{"Warning KubeadmConfigTemplate t: the next upgrade would meet this"},
		},
		"in order": {version: "v1.34.8", gates: "NodeSwap=true", want: []string{"OK Cluster prod"}},
		"a newer minor": {
			version: "v1.99.1", gates: "NodeSwap=true", want: []string{"Warning Cluster prod: the settings of"},
		},
		"the version lacks it, and a newer minor is unknown": {
			version: "v1.40.1", runs: "v1.34.8", gates: gate, want: []string{
				"Error KubeadmConfigTemplate t: it is removed in v1.35", "Warning Cluster prod: the settings of v1.37",
			},
		},
		"an older minor": {
			version: "v1.20.1", gates: "NodeSwap=true", want: []string{"Warning Cluster prod: the settings of v1.20"},
		},
		"a gate in the newest minor": {version: settings.Newest().String() + ".0", gates: "NodeSwap=true", want: []string{"OK Cluster prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.Objects.Cluster.Spec.Topology.Version = test.version
			if test.runs != "" {
				err := unstructured.SetNestedField(f.Objects.ControlPlane.Object, test.runs, "status", "version")
				if err != nil {
					t.Fatal(err)
				}
			}
			place := settings.Place{Object: "KubeadmConfigTemplate t", Path: "spec"}
			f.Settings = settings.FromArgs(place, settings.Kubelet,
				[]settings.Arg{{Name: "feature-gates", Value: test.gates}})
			found, _ := Examine(f)
			var got []string
			for _, finding := range found {
				if finding.ID == CheckSettings {
					got = append(got, string(finding.Severity)+" "+finding.Subject+": "+finding.Message)
				}
			}
			if len(got) != len(test.want) {
				t.Fatalf("findings %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				start, word, _ := strings.Cut(want, ": ")
				word = strings.TrimPrefix(word, "it ")
				if !strings.HasPrefix(got[i], start) || !strings.Contains(got[i], word) {
					t.Errorf("finding %q, want %q", got[i], want)
				}
			}
		})
	}
}

// TestSettingsOfGroup: an error about the control plane object says that its machines cannot be
// updated; a warning does not.
func TestSettingsOfGroup(t *testing.T) {
	t.Parallel()
	f := healthy()
	groups := listGroups(f)
	at := settings.Place{Object: groups[0].Subject, Path: "spec"}
	use := settings.FromArgs(at, settings.APIServer,
		[]settings.Arg{{Name: "feature-gates", Value: "UserNamespacesPodSecurityStandards=true"}})
	var got []Severity
	for _, version := range []string{"v1.34.8", "v1.35.5"} {
		f.Objects.Cluster.Spec.Topology.Version, f.Settings = version, use
		found, _ := Examine(f)
		got = append(got, found[0].Severity)
	}
	if diff := cmp.Diff([]Severity{OK, Error}, got); diff != "" {
		t.Errorf("the group at v1.34.8 and v1.35.5 (-want +got):\n%s", diff)
	}
}

// TestPackages: packages of the Cluster's version are in order, because they are changed with it. Those
// of another one are a warning.
func TestPackages(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.Settings = []settings.Use{{Object: "KubeadmConfigTemplate t", Component: settings.Kubeadm, Kind: settings.Packages, Name: "v1.34"}}
	var got []Severity
	for _, version := range []string{"v1.34.8", "v1.35.5"} {
		f.Objects.Cluster.Spec.Topology.Version = version
		found, _ := Examine(f)
		for _, finding := range found {
			if finding.ID == CheckSettings {
				got = append(got, finding.Severity)
			}
		}
	}
	if diff := cmp.Diff([]Severity{OK, Warning}, got); diff != "" {
		t.Errorf("at v1.34.8 and v1.35.5 (-want +got):\n%s", diff)
	}
}
