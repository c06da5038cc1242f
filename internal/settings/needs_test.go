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
