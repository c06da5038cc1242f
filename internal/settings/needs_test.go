package settings_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestNeeds: a component ends if a gate is on whose other one is off. What is on by default counts.
func TestNeeds(t *testing.T) {
	t.Parallel()
	at := func(object, gates string) []settings.Use {
		args := []settings.Arg{{Name: "feature-gates", Value: gates}}
		return settings.FromArgs(settings.Place{Object: object}, settings.Kubelet, args)
	}
	needed := []brief{{ID: "kubelet/GracefulNodeShutdown", Problem: settings.Needed, Since: "v1.35"}}
	needy := []brief{{ID: "kubelet/GangScheduling", Problem: settings.Needy, Since: "v1.35"}}
	for name, test := range map[string]struct {
		to    string
		uses  [][]settings.Use
		wants []brief
	}{
		"what a gate needs that is on by default": {
			to: "v1.35.5", uses: [][]settings.Use{at("a", "GracefulNodeShutdown=false")}, wants: needed,
		},
		"gates have no needs before": {
			to: "v1.34.8", uses: [][]settings.Use{at("a", "GracefulNodeShutdown=false")},
		},
		"the gate that needs it is off, too": {
			to: "v1.36.2", uses: [][]settings.Use{
				at("a", "GracefulNodeShutdown=false,WindowsGracefulNodeShutdown=false"),
				at("b", "GracefulNodeShutdownBasedOnPodPriority=false"),
			},
		},
		"one of two is on": {
			to: "v1.36.2", uses: [][]settings.Use{
				at("a", "GracefulNodeShutdown=false,WindowsGracefulNodeShutdown=false"),
			},
			wants: needed,
		},
		"what a gate needs that is off by default": {
			to: "v1.36.2", uses: [][]settings.Use{at("a", "GangScheduling=true")}, wants: needy,
		},
		"it is on": {
			to: "v1.36.2", uses: [][]settings.Use{at("a", "GangScheduling=true"), at("b", "GenericWorkload=true")},
		},
		"a gate that is off by default, in one object": {
			to: "v1.35.5", uses: [][]settings.Use{
				at("a", "UserNamespacesHostNetworkSupport=true,UserNamespacesSupport=false,ProcMountType=false"),
			},
			wants: []brief{{ID: "kubelet/UserNamespacesSupport", Problem: settings.Needed, Since: "v1.35"}},
		},
		"a gate that is off by default, in another object": {
			to: "v1.35.5", uses: [][]settings.Use{
				at("a", "UserNamespacesSupport=false,ProcMountType=false"),
				at("b", "UserNamespacesHostNetworkSupport=true"),
			},
		},
		"a gate that sets others": {
			to: "v1.36.2", uses: [][]settings.Use{at("a", "AllBeta=false,GracefulNodeShutdown=false")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var uses []settings.Use
			for _, more := range test.uses {
				uses = append(uses, more...)
			}
			found := settings.Check(upgrade("v1.34.1", test.to), uses)
			if diff := cmp.Diff(test.wants, briefs(found)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	found := settings.Check(upgrade("", "v1.36.2"), append(at("a", "GracefulNodeShutdown=false"),
		at("a", "GangScheduling=true")...))
	want := "a: the feature gate GangScheduling=true of kubelet needs the gate " +
		"GenericWorkload since v1.35, which is off by default; the component would not start; " +
		"a: the feature gate GracefulNodeShutdown=false of kubelet turns off what the gate " +
		"GracefulNodeShutdownBasedOnPodPriority needs since v1.35; the component would not start. " +
		"Fix: remove it, or set GenericWorkload=true, too, before the upgrade; accept it by the name " +
		"kubelet/GangScheduling if this build has it"
	if diff := cmp.Diff(want, settings.Describe(found)); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

// TestNeedsOfGroups: what the machines of one group are given neither excuses nor breaks what those of
// another one are. What all machines are given counts for each.
func TestNeedsOfGroups(t *testing.T) {
	t.Parallel()
	group := func(name, gates string) []settings.Use {
		return settings.FromObject(settings.Object{Kind: "KubeadmConfigTemplate", Name: name, Content: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{
					"kubeletExtraArgs": []any{map[string]any{"name": "feature-gates", "value": gates}},
				}},
			}}},
		}})
	}
	all := func(gates string) []settings.Use {
		return settings.FromArgs(settings.Place{Object: "the ConfigMap"}, settings.Kubelet,
			[]settings.Arg{{Name: "feature-gates", Value: gates}})
	}
	const off, both = "GracefulNodeShutdown=false", "GracefulNodeShutdown=false,GracefulNodeShutdownBasedOnPodPriority=false,WindowsGracefulNodeShutdown=false"
	const rest = "GracefulNodeShutdownBasedOnPodPriority=false,WindowsGracefulNodeShutdown=false"
	for name, tt := range map[string]struct {
		uses [][]settings.Use
		want []string
	}{
		"another group's gates excuse nothing": {[][]settings.Use{group("a", off), group("b", both)}, []string{"KubeadmConfigTemplate a"}},
		"its own do":                           {[][]settings.Use{group("a", both), group("b", both)}, nil},
		"those of all machines do":             {[][]settings.Use{group("a", off), all(rest)}, nil},
		"what all machines have is met by one": {[][]settings.Use{all(off), group("a", rest)}, nil},
	} {
		var uses []settings.Use
		for _, more := range tt.uses {
			uses = append(uses, more...)
		}
		var got []string
		for _, f := range settings.Check(upgrade("v1.34.1", "v1.36.2"), uses) {
			got = append(got, f.Object)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNeedsAreNotLacks: a version accepts a gate that only others make wrong.
func TestNeedsAreNotLacks(t *testing.T) {
	t.Parallel()
	for gates, want := range map[string]bool{
		"GracefulNodeShutdown=false": false, "GangScheduling=true": false, "NoSuchGate=true": true,
	} {
		arg := settings.Arg{Name: "feature-gates", Value: gates}
		if got := settings.LacksArg(version.MustParse("v1.36.1"), nil, settings.Kubelet, arg); got != want {
			t.Errorf("v1.36 lacks %s: %t, want %t", gates, got, want)
		}
	}
}
