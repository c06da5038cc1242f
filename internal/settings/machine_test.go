package settings_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestCheckMachine compares machines with what minors need.
func TestCheckMachine(t *testing.T) {
	t.Parallel()
	v1, allowed := settings.Machine{CgroupV1: true}, settings.Machine{CgroupV1: true, CgroupV1Allowed: true}
	runtime := func(name string) settings.Machine { return settings.Machine{Runtime: name} }
	kernel := func(release string) settings.Machine { return settings.Machine{Kernel: release} }
	for name, test := range map[string]struct {
		to      string
		machine settings.Machine
		want    map[string]bool
	}{
		"nothing is known":               {to: "v1.36", machine: settings.Machine{}},
		"cgroups v1, before":             {to: "v1.34", machine: v1},
		"cgroups v1":                     {to: "v1.35", machine: v1, want: map[string]bool{settings.CgroupV2: false}},
		"cgroups v1, allowed":            {to: "v1.36", machine: allowed},
		"containerd 1.6, before":         {to: "v1.35", machine: runtime("containerd://1.6.28")},
		"containerd 1.6":                 {to: "v1.36", machine: runtime("containerd://1.6.28"), want: map[string]bool{settings.Containerd: true}},
		"containerd 1.7, when it counts": {to: "v1.38", machine: runtime("containerd://1.7.29"), want: map[string]bool{settings.Containerd: false}},
		"containerd 2":                   {to: "v1.38", machine: runtime("containerd://2.1.5")},
		"CRI-O":                          {to: "v1.38", machine: runtime("cri-o://1.33.1")},
		"a kernel of RHEL 8, before":     {to: "v1.31", machine: kernel("4.18.0-553.el8.x86_64")},
		"a kernel of RHEL 8":             {to: "v1.33", machine: kernel("4.18.0-553.el8.x86_64"), want: map[string]bool{settings.Kernel: false}},
		"the same, as a warning":         {to: "v1.34", machine: kernel("4.18.0-553.el8.x86_64"), want: map[string]bool{settings.Kernel: true}},
		"a kernel of RHEL 9":             {to: "v1.36", machine: kernel("5.14.0-570.el9.x86_64")},
		"a kernel of Ubuntu 22.04":       {to: "v1.36", machine: kernel("5.15.0-139-generic")},
		"a kernel of Ubuntu 24.04":       {to: "v1.36", machine: kernel("6.8.0-79-generic")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, err := version.ParseMinor(test.to)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]bool
			for _, r := range settings.CheckMachine(to, test.machine) {
				if got == nil {
					got = map[string]bool{}
				}
				got[r.ID] = r.Warning
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requirements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckMachineOnTheWay: of each requirement, people are told once, and of a failure instead of a warning.
func TestCheckMachineOnTheWay(t *testing.T) {
	t.Parallel()
	m := settings.Machine{CgroupV1: true, Runtime: "containerd://1.6.28", Kernel: "4.18.0-553.el8.x86_64"}
	type lack struct {
		ID      string
		Warning bool
	}
	for to, want := range map[string][]lack{
		"v1.32.1": {{settings.Kernel, false}},
		"v1.34.1": {{settings.Kernel, false}},
		"v1.36.1": {{settings.Kernel, false}, {settings.CgroupV2, false}, {settings.Containerd, true}},
		"v1.38.1": {{settings.Kernel, false}, {settings.CgroupV2, false}, {settings.Containerd, false}},
	} {
		var got []lack
		for _, r := range upgrade("v1.30.1", to).CheckMachine(m) {
			got = append(got, lack{r.ID, r.Warning})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", to, diff)
		}
	}
}

// TestIgnoresVerification: kubeadm compares names without case, and what counts is how machines join.
func TestIgnoresVerification(t *testing.T) {
	t.Parallel()
	registration := func(field string, names ...any) map[string]any {
		return map[string]any{field: map[string]any{"nodeRegistration": map[string]any{"ignorePreflightErrors": names}}}
	}
	template := func(spec map[string]any) map[string]any {
		return map[string]any{"template": map[string]any{"spec": spec}}
	}
	own := func(spec map[string]any) map[string]any { return map[string]any{"kubeadmConfigSpec": spec} }
	join := registration("joinConfiguration", "Swap", "systemVERIFICATION")
	for name, tt := range map[string]struct {
		kind string
		spec map[string]any
		want bool
	}{
		"a control plane":      {"KubeadmControlPlane", own(join), true},
		"its template":         {"KubeadmControlPlaneTemplate", template(own(join)), true},
		"a config":             {"KubeadmConfig", join, true},
		"a template":           {"KubeadmConfigTemplate", template(join), true},
		"all":                  {"KubeadmConfigTemplate", template(registration("joinConfiguration", "all")), true},
		"other checks":         {"KubeadmConfigTemplate", template(registration("joinConfiguration", "Swap")), false},
		"the first machine":    {"KubeadmControlPlane", own(registration("initConfiguration", "SystemVerification")), false},
		"nothing":              {"KubeadmControlPlane", nil, false},
		"another distribution": {"RKE2ControlPlane", join, false},
	} {
		object := settings.Object{Kind: tt.kind, Content: map[string]any{"spec": tt.spec}}
		if got := settings.IgnoresVerification(object); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// TestParseContainerd: what builds of containerd print becomes what a Node reports.
func TestParseContainerd(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		"containerd containerd.io 1.6.28 ae07eda36dd25f8a1b98dfbf587313b99c0190bb":                       "containerd://1.6.28",
		"containerd github.com/containerd/containerd v1.7.24 88bf19b2105c8b17560993bee28a01ddc2f97182":   "containerd://1.7.24",
		"containerd github.com/containerd/containerd 1.7.27 ":                                            "containerd://1.7.27",
		"containerd github.com/containerd/containerd/v2 v2.1.5 fcd43222d6b07379a4be9786bda52438f0dd16a1": "containerd://2.1.5",
		"containerd github.com/k3s-io/containerd v2.0.5-k3s1.32 ":                                        "containerd://2.0.5-k3s1.32",
		"": "", "bash: containerd: command not found": "",
	} {
		if got := settings.ParseContainerd(printed); got != want {
			t.Errorf("%q is %q, want %q", printed, got, want)
		}
	}
}
