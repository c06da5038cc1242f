package devplane

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPicker(t *testing.T) {
	t.Parallel()
	taken := map[uint16]bool{10500: true, 10502: true}
	p := &picker{used: map[uint16]bool{}, free: func(port uint16) bool { return !taken[port] }}
	var got []uint16
	for range 3 {
		port, err := p.pick(10500)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, port)
	}
	if diff := cmp.Diff([]uint16{10501, 10503, 10504}, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	none := &picker{used: map[uint16]bool{}, free: func(uint16) bool { return false }}
	if _, err := none.pick(18990); err == nil || !strings.Contains(err.Error(), "18990 to 18999") {
		t.Errorf("error is %v, want one with the range", err)
	}
}

func TestComputeGates(t *testing.T) {
	t.Parallel()
	wanted := map[string]bool{"B": false, "A": true, "C": true}
	if got, want := computeGates([]string{"C", "B", "D"}, wanted), "B=false,C=true"; got != want {
		t.Errorf("gates are %q, want %q", got, want)
	}
	if got := computeGates(nil, wanted); got != "" {
		t.Errorf("gates of a manager that knows none: %q", got)
	}
}

func TestValidateGates(t *testing.T) {
	t.Parallel()
	a := assets{ClusterAPIVersion: "v1", Managers: []managerAssets{{FeatureGates: []string{"A"}}, {FeatureGates: []string{"B"}}}}
	if err := a.validateGates(map[string]bool{"A": true, "B": false}); err != nil {
		t.Error(err)
	}
	if err := a.validateGates(map[string]bool{"X": true, "A": true, "C": true}); err == nil || !strings.Contains(err.Error(), "C, X") {
		t.Errorf("error is %v, want one that names C and X", err)
	}
}

func TestComputePlacement(t *testing.T) {
	t.Parallel()
	config := Config{Without: []string{InMemoryManager}, Children: []Child{{Name: "manager", Replaces: CoreManager}}}
	for manager, want := range map[string]placement{CoreManager: placeReplaced, InMemoryManager: placeEmpty, KubeadmControlPlaneManager: placeStock} {
		if got := computePlacement(config, manager); got != want {
			t.Errorf("placement of %s is %d, want %d", manager, got, want)
		}
	}
}

func TestComputeNames(t *testing.T) {
	t.Parallel()
	names := computeNames(Config{
		BindAddress:      netip.MustParseAddr("0.0.0.0"),
		CertificateNames: []string{"example.com", "localhost"},
		Veth:             &Veth{Address: netip.MustParsePrefix("10.88.0.1/24")},
	})
	for _, want := range []string{"127.0.0.1", "localhost", "example.com", "10.88.0.1"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
	sorted := slices.Sorted(slices.Values(names))
	if compact := slices.Compact(slices.Clone(sorted)); len(compact) != len(sorted) {
		t.Errorf("a name is there twice: %v", names)
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for bind, want := range map[netip.Addr]string{
		{}:                               "127.0.0.1:6443",
		netip.IPv6Unspecified():          "127.0.0.1:6443",
		netip.MustParseAddr("10.88.0.1"): "10.88.0.1:6443",
		netip.MustParseAddr("fd00::1"):   "[fd00::1]:6443",
	} {
		if got := endpoint(bind, 6443); got != want {
			t.Errorf("endpoint of %s is %s, want %s", bind, got, want)
		}
	}
}

func TestComputeManager(t *testing.T) {
	t.Parallel()
	config := Config{AssetsDir: "/assets", LogLevel: 4, FeatureGates: map[string]bool{"A": true}, Restart: RestartAlways}
	ports := map[string]uint16{portWebhook: 1, portHealth: 2, portDiagnostics: 3}
	child := computeManager(managerAssets{Name: InMemoryManager, FeatureGates: []string{"A"}}, config, layout{dir: "/state"}, ports)
	want := []string{
		"--kubeconfig=/state/certs/capi-in-memory/kubeconfig", "--leader-elect=false", "--webhook-port=1",
		"--webhook-cert-dir=/state/certs/capi-in-memory", "--health-addr=127.0.0.1:2", "--diagnostics-address=127.0.0.1:3",
		"--insecure-diagnostics", "--v=4", "--feature-gates=A=true",
	}
	if diff := cmp.Diff(want, child.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	server := computeAPIServer(config, layout{dir: "/state"}, 1, "")
	if child.Restart != RestartAlways || server.Restart != RestartAlways {
		t.Errorf("the manager is restarted %q, the API server %q, want %q", child.Restart, server.Restart, RestartAlways)
	}
	if !slices.Contains(child.Env, "POD_IP=127.0.0.1") {
		t.Errorf("environment is %v, want the address for workload clusters", child.Env)
	}
}

func TestComputeMissing(t *testing.T) {
	t.Parallel()
	resource := func(group, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
	}
	wanted := map[schema.GroupVersionResource]bool{resource("g", "as"): true, resource("g", "bs"): true, resource("h", "as"): true}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "g/v1", APIResources: []metav1.APIResource{{Name: "as"}, {Name: "as/status"}}},
		{GroupVersion: "g/v2", APIResources: []metav1.APIResource{{Name: "bs"}}},
		{GroupVersion: "not/a/version"},
	}
	if diff := cmp.Diff([]string{"as.h", "bs.g"}, computeMissing(wanted, lists)); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestComputeLinkerFlags(t *testing.T) {
	t.Parallel()
	modules := map[string]module{kubernetesModule: {Version: "v1.36.3"}, clusterAPIModule: {Version: "v1.14.2"}}
	flags, err := computeLinkerFlags(modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"version.gitVersion=v1.36.3", "version.gitMajor=1", "version.gitMinor=36", "cluster-api/version.gitVersion=v1.14.2"} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags are %q, want %q among them", flags, want)
		}
	}
	if _, err := computeLinkerFlags(map[string]module{kubernetesModule: {Version: "latest"}}); err == nil {
		t.Error("a version that is none was accepted")
	}
}

func TestComputeInputs(t *testing.T) {
	t.Parallel()
	base := computeInputs(map[string][]byte{"a": []byte("1"), "b": []byte("2")})
	if again := computeInputs(map[string][]byte{"b": []byte("2"), "a": []byte("1")}); again != base {
		t.Error("the digest depends on the order of a map")
	}
	for name, files := range map[string]map[string][]byte{
		"content":          {"a": []byte("1"), "b": []byte("3")},
		"name":             {"a": []byte("1"), "c": []byte("2")},
		"one file less":    {"a": []byte("1")},
		"moved a boundary": {"a": []byte("1b"), "": []byte("2")},
	} {
		if computeInputs(files) == base {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

func TestComputePhase(t *testing.T) {
	t.Parallel()
	crashed := ChildStatus{Name: "capi-core", State: ChildExited, LastExit: &Exit{Code: 3, LogTail: []string{"boom"}}, LogFile: "/l"}
	killed := ChildStatus{Name: "capi-core", State: ChildExited, LastExit: &Exit{Code: -1, Signal: "killed", Expected: true}}
	restarted := ChildStatus{Name: "capi-core", State: ChildReady, LastExit: &Exit{Code: 3}}
	tests := map[string]struct {
		phase    Phase
		children []ChildStatus
		want     Phase
		message  string
	}{
		"healthy":           {phase: PhaseRunning, children: []ChildStatus{{State: ChildReady}}, want: PhaseRunning, message: "m"},
		"crashed":           {phase: PhaseRunning, children: []ChildStatus{{State: ChildReady}, crashed}, want: PhaseFailed, message: "capi-core ended: exit status 3"},
		"killed on request": {phase: PhaseRunning, children: []ChildStatus{killed}, want: PhaseRunning, message: "m"},
		"started again":     {phase: PhaseRunning, children: []ChildStatus{restarted}, want: PhaseRunning, message: "m"},
		"stopping":          {phase: PhaseStopping, children: []ChildStatus{crashed}, want: PhaseStopping, message: "m"},
	}
	for name, tt := range tests {
		phase, message := computePhase(tt.phase, "m", tt.children)
		if phase != tt.want || !strings.Contains(message, tt.message) {
			t.Errorf("%s: phase is %s (%s), want %s (%s)", name, phase, message, tt.want, tt.message)
		}
	}
}

func TestAsSeenOutside(t *testing.T) {
	t.Parallel()
	known := map[int]processInfo{2: {pid: 4002, residentBytes: 1 << 20, peakBytes: 2 << 20, cpu: time.Second}}
	outside := ChildStatus{PID: 4002, ResidentBytes: 1 << 20, PeakResidentBytes: 2 << 20, CPU: time.Second}
	tests := map[string]struct {
		pid          int
		ownNamespace bool
		want         ChildStatus
	}{
		"translated":                 {pid: 2, ownNamespace: true, want: outside},
		"not translated":             {pid: 3, ownNamespace: true, want: ChildStatus{}},
		"does not run":               {pid: 0, ownNamespace: true, want: ChildStatus{}},
		"the same ids":               {pid: 3, want: ChildStatus{PID: 3}},
		"the same ids, with a size":  {pid: 2, want: outside},
		"the same ids, does not run": {pid: 0, want: ChildStatus{}},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, asSeenOutside(ChildStatus{PID: tt.pid}, known, tt.ownNamespace)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestChildError(t *testing.T) {
	t.Parallel()
	err := &ChildError{Name: "capi-core", LogFile: "/l", Exit: Exit{Code: 3, At: time.Time{}, LogTail: []string{"one", "two"}}}
	if diff := cmp.Diff("capi-core ended: exit status 3 (log: /l); its last lines:\n  one\n  two", err.Error()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}
