package devplane

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func valid() Config {
	return Config{StateDir: "/state", AssetsDir: "/assets"}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Config)
		want   []string // each in the error; none when nil
	}{
		"valid":            {change: func(*Config) {}},
		"no directories":   {change: func(c *Config) { c.StateDir, c.AssetsDir = "", "" }, want: []string{"StateDir is empty", "AssetsDir is empty"}},
		"multicast":        {change: func(c *Config) { c.BindAddress = netip.MustParseAddr("224.0.0.1") }, want: []string{"BindAddress 224.0.0.1"}},
		"unknown manager":  {change: func(c *Config) { c.Without = []string{"capi"} }, want: []string{`"capi" is not a stock manager`, CoreManager}},
		"unknown isolated": {change: func(c *Config) { c.Isolation = "Maybe" }, want: []string{`Isolation "Maybe"`}},
		"veth": {change: func(c *Config) {
			c.Veth = &Veth{Name: "inside", PeerName: "outside", Address: netip.MustParsePrefix("10.88.0.1/24"), PeerNamespace: "host"}
		}},
		"veth without anything": {
			change: func(c *Config) { c.Veth = &Veth{} },
			want:   []string{`Veth.Name ""`, `Veth.PeerName ""`, "Veth.Address is empty", "Veth.PeerNamespace is empty"},
		},
		"veth with a long name": {
			change: func(c *Config) {
				c.Veth = &Veth{Name: "sixteen-letters-", PeerName: "b", Address: netip.MustParsePrefix("10.88.0.1/24"), PeerNamespace: "1"}
			},
			want: []string{"sixteen-letters-"},
		},
		"veth without a namespace": {
			change: func(c *Config) {
				c.Isolation = IsolationNone
				c.Veth = &Veth{Name: "a", PeerName: "b", Address: netip.MustParsePrefix("10.88.0.1/24"), PeerNamespace: "1"}
			},
			want: []string{"Veth needs a network namespace"},
		},
		"child": {change: func(c *Config) {
			c.Children = []Child{{Name: "extension", Path: "/bin/true", Ports: []string{"https"}}}
		}},
		"child with a stock name": {
			change: func(c *Config) { c.Children = []Child{{Name: CoreManager, Path: "/bin/true"}} }, want: []string{`child 0: the name "capi-core" is taken`},
		},
		"children with one name": {
			change: func(c *Config) { c.Children = []Child{{Name: "a", Path: "/a"}, {Name: "a", Path: "/a"}} }, want: []string{`child 1: the name "a" is taken`},
		},
		"children in one place": {
			change: func(c *Config) {
				c.Children = []Child{{Name: "a", Path: "/a", Replaces: CoreManager}, {Name: "b", Path: "/a", Replaces: CoreManager}}
			},
			want: []string{"child 1: capi-core is replaced by another child already"},
		},
		"arguments of nobody": {
			change: func(c *Config) { c.Children = []Child{{Name: "a", Path: "/a", StockArgs: true}} },
			want:   []string{`"a" asks for the arguments of a stock manager and replaces none`},
		},
		"child with everything wrong": {
			change: func(c *Config) {
				c.Children = []Child{{
					Name: "../A", Path: "bin", Ready: Readiness{URL: "http://a", TCP: "b:1"}, Restart: "Sometimes", Ports: []string{"a b"}, Replaces: "kubelet",
				}}
			},
			want: []string{`name "../A"`, `path "bin"`, "a URL and a TCP address", `restart policy "Sometimes"`, `port name "a b"`, `"kubelet", which is not a stock manager`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := valid()
			tt.change(&config)
			err := config.validate()
			if tt.want == nil && err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want one with %q", err, want)
				}
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	gates := map[string]bool{"MachinePool": false, "PriorityQueue": true}
	in := Config{StateDir: "state", AssetsDir: "/assets", FeatureGates: gates}
	out, err := in.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Abs("state")
	if err != nil {
		t.Fatal(err)
	}
	if out.StateDir != want || out.AssetsDir != "/assets" {
		t.Errorf("directories are %s and %s", out.StateDir, out.AssetsDir)
	}
	if got := out.BindAddress.String(); got != "127.0.0.1" {
		t.Errorf("bind address is %s", got)
	}
	wantGates := map[string]bool{"ClusterTopology": true, "InPlaceUpdates": true, "MachinePool": false, "PriorityQueue": true, "RuntimeSDK": true}
	if diff := cmp.Diff(wantGates, out.FeatureGates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	if len(gates) != 2 {
		t.Error("the caller's gates were changed")
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "one", "PORT_x": "2"}
	for in, want := range map[string]string{
		"":                        "",
		"plain $ text (a)":        "plain $ text (a)",
		"$(A)":                    "one",
		"--a=$(A):$(PORT_x)/$(A)": "--a=one:2/one",
		"$$(A)":                   "$(A)",
		"$$(B) $(A)":              "$(B) one",
	} {
		if got, err := expand(in, values); err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"$(B)", "$(A", "$()", "$(A)$(b)"} {
		if got, err := expand(in, values); err == nil || !strings.Contains(err.Error(), "A, PORT_x") {
			t.Errorf("expand(%q) = %q, %v, want an error with the names there are", in, got, err)
		}
	}
}

func TestExpandChildKeepsItsInput(t *testing.T) {
	t.Parallel()
	in := Child{Name: "a", Args: []string{"$(A)"}, Env: []string{"E=$(A)"}, Ready: Readiness{URL: "http://$(A)/"}}
	out, err := expandChild(in, map[string]string{"A": "one"})
	if err != nil {
		t.Fatal(err)
	}
	want := Child{Name: "a", Args: []string{"one"}, Env: []string{"E=one"}, Ready: Readiness{URL: "http://one/"}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("expanded (-want +got):\n%s", diff)
	}
	if in.Args[0] != "$(A)" || in.Env[0] != "E=$(A)" {
		t.Errorf("the input was changed: %+v", in)
	}
}
