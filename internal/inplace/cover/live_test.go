package cover_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// kubeadm is a KubeadmConfig with a spec; kubeadmTemplate its template.
func kubeadm(spec string) []byte {
	return []byte(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfig","spec":` + spec + `}`)
}

func kubeadmTemplate(spec string) []byte {
	return []byte(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfigTemplate","spec":{"template":{"spec":` + spec + `}}}`)
}

func spec(spec string) []byte { return []byte(`{"kind":"X","spec":` + spec + `}`) }
func template(spec string) []byte {
	return []byte(`{"kind":"X","spec":{"template":{"spec":` + spec + `}}}`)
}

func pointersOf(t *testing.T, list []cover.Pointer, err error) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range list {
		found = append(found, string(p.Part)+" "+p.Path)
	}
	return found
}

// TestNotLive compares what stock Cluster API v1.14 sends as the current objects of a control plane Machine with what the API server has.
func TestNotLive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		current, live, desired cover.Objects
		want                   []string
	}{
		"the same": {current: cover.Objects{Machine: spec(`{"version":"v1"}`)}, live: cover.Objects{Machine: spec(`{"version":"v1","deletion":{},"taints":[]}`)}},
		"what is mutated without an update": {
			current: cover.Objects{Machine: spec(`{"version":"v1","providerID":"a"}`)}, live: cover.Objects{Machine: spec(`{"version":"v1","providerID":"b","minReadySeconds":3}`)},
		},
		"another version": {
			current: cover.Objects{Machine: spec(`{"version":"v1"}`)}, live: cover.Objects{Machine: spec(`{"version":"v2"}`)}, want: []string{"Machine /spec/version"},
		},
		"a machine that joined": {
			current: cover.Objects{Bootstrap: kubeadm(`{"format":"cloud-config","joinConfiguration":{"controlPlane":{},"nodeRegistration":{"name":"n","imagePullPolicy":"IfNotPresent"}},"clusterConfiguration":{}}`)},
			live: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{},"nodeRegistration":{"name":"n"},"discovery":{"bootstrapToken":{"token":"t"}}},` +
				`"clusterConfiguration":{"controlPlaneEndpoint":"e","dns":{"imageTag":"1"}}}`)},
		},
		"the machine that initialised": {
			current: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{"localAPIEndpoint":{"bindPort":1}},"skipPhases":["x"],"caCertPath":"/ca","nodeRegistration":{"name":"n"}}}`)},
			live:    cover.Objects{Bootstrap: kubeadm(`{"initConfiguration":{"localAPIEndpoint":{"bindPort":1},"skipPhases":["x"],"nodeRegistration":{"name":"n","imagePullPolicy":"IfNotPresent"}}}`)},
			desired: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{},"caCertPath":"/ca"}}`)},
		},
		// Before v1.12 nothing set joinConfiguration.controlPlane. isKubeadmConfigForInit decides.
		"an old machine that initialised, with a node registration of both": {
			current: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{},"nodeRegistration":{"name":"init"}}}`)},
			live:    cover.Objects{Bootstrap: kubeadm(`{"initConfiguration":{"nodeRegistration":{"name":"init"}},"joinConfiguration":{"nodeRegistration":{"name":"join"}}}`)},
		},
		"an old machine that joined": {
			current: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{},"nodeRegistration":{"kubeletExtraArgs":[{"name":"v"}]}},"initConfiguration":{"skipPhases":["x"]}}`)},
			live:    cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"nodeRegistration":{"kubeletExtraArgs":[{"name":"v"}]}},"initConfiguration":{"skipPhases":["x"]}}`)},
		},
		"a config as it is stored": {
			current: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"nodeRegistration":{"name":"n"}},"clusterConfiguration":{"controlPlaneEndpoint":"e"}}`)},
			live:    cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"nodeRegistration":{"name":"n"}},"clusterConfiguration":{"controlPlaneEndpoint":"e"}}`)},
		},
		"a machine that joined, by an empty object": {
			current: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{}},"initConfiguration":{"skipPhases":["x"]}}`)},
			live:    cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{}},"initConfiguration":{"skipPhases":["x"]}}`)},
		},
		"another certificate authority of a machine that joined": {
			current: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{},"caCertPath":"/evil"}}`)}, live: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{}}}`)},
			desired: cover.Objects{Bootstrap: kubeadm(`{"joinConfiguration":{"controlPlane":{},"caCertPath":"/evil"}}`)}, want: []string{"BootstrapConfig /spec/joinConfiguration/caCertPath"},
		},
		"files of the caller's own": {
			current: cover.Objects{Bootstrap: kubeadm(`{"files":[{"path":"/etc/cron.d/evil"}]}`)}, live: cover.Objects{Bootstrap: kubeadm(`{}`)},
			desired: cover.Objects{Bootstrap: kubeadm(`{"files":[{"path":"/etc/cron.d/evil"}]}`)}, want: []string{"BootstrapConfig /spec/files"},
		},
		"a default of the infrastructure": {
			current: cover.Objects{Infrastructure: spec(`{"a":1,"new":"default"}`)}, live: cover.Objects{Infrastructure: spec(`{"a":1}`)}, desired: cover.Objects{Infrastructure: spec(`{"a":2,"new":"default"}`)},
		},
		"a change that looks like a default": {
			current: cover.Objects{Infrastructure: spec(`{"new":"x"}`)}, live: cover.Objects{Infrastructure: spec(`{}`)}, desired: cover.Objects{Infrastructure: spec(`{"new":"y"}`)},
			want: []string{"InfrastructureMachine /spec/new"},
		},
		"a field of the infrastructure that is left out": {
			current: cover.Objects{Infrastructure: spec(`{}`)}, live: cover.Objects{Infrastructure: spec(`{"a":1}`)}, want: []string{"InfrastructureMachine /spec/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := cover.NotLive(tt.current, tt.live, tt.desired)
			if diff := cmp.Diff(tt.want, pointersOf(t, list, err)); diff != "" {
				t.Errorf("NotLive (-want +got)\n%s", diff)
			}
		})
	}
}

// TestMissing compares templates with the objects that Cluster API and providers make of them.
func TestMissing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		templates, machine cover.Objects
		want               []string
	}{
		"what providers and controllers add": {
			templates: cover.Objects{
				Machine: template(`{"version":"v1","infrastructureRef":{"name":"t"}}`), Infrastructure: template(`{"size":"s","disks":[{"gb":1}]}`), Bootstrap: kubeadmTemplate(`{"joinConfiguration":{"discovery":{"bootstrapToken":{}}}}`),
			},
			machine: cover.Objects{
				Machine: spec(`{"version":"v1","providerID":"p","failureDomain":"z"}`), Infrastructure: spec(`{"size":"s","providerID":"p","disks":[{"gb":1,"id":"d"}]}`),
				Bootstrap: kubeadm(`{"joinConfiguration":{"discovery":{"bootstrapToken":{"token":"t"}},"nodeRegistration":{"name":"n"}},"clusterConfiguration":{"controlPlaneEndpoint":"e"}}`),
			},
		},
		"another version": {
			templates: cover.Objects{Machine: template(`{"version":"v1"}`)}, machine: cover.Objects{Machine: spec(`{"version":"v2"}`)}, want: []string{"Machine /spec/version"},
		},
		"another size, and a disk less": {
			templates: cover.Objects{Infrastructure: template(`{"size":"s","disks":[1,2]}`)}, machine: cover.Objects{Infrastructure: spec(`{"size":"m","disks":[1]}`)},
			want: []string{"InfrastructureMachine /spec/disks", "InfrastructureMachine /spec/size"},
		},
		"a file more than the template has": {
			templates: cover.Objects{Bootstrap: kubeadmTemplate(`{}`)}, machine: cover.Objects{Bootstrap: kubeadm(`{"files":[{"path":"/etc/cron.d/evil"}]}`)}, want: []string{"BootstrapConfig /spec/files"},
		},
		"another file than the template has": {
			templates: cover.Objects{Bootstrap: kubeadmTemplate(`{"files":[{"path":"/a"}]}`)}, machine: cover.Objects{Bootstrap: kubeadm(`{"files":[{"path":"/b"}]}`)}, want: []string{"BootstrapConfig /spec/files/0/path"},
		},
		"a bootstrap config of another kind": {
			templates: cover.Objects{Bootstrap: template(`{"a":1}`)}, machine: cover.Objects{Bootstrap: spec(`{"a":1,"b":2}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := cover.Missing(tt.templates, tt.machine)
			if diff := cmp.Diff(tt.want, pointersOf(t, list, err)); diff != "" {
				t.Errorf("Missing (-want +got)\n%s", diff)
			}
		})
	}
}

// TestUnasked compares what a control plane Machine is to become with what its KubeadmControlPlane asks for.
func TestUnasked(t *testing.T) {
	t.Parallel()
	const initial = `"initConfiguration":{"nodeRegistration":{"kubeletExtraArgs":[{"name":"v","value":"4"}]}}`
	all := cover.Objects{
		// Nothing says of which kind a Machine is to be.
		Machine: []byte(`{"spec":{"version":"v2"}}`), Infrastructure: spec(`{"size":"m","disk":{"gb":1}}`),
		Bootstrap: kubeadm(`{"files":[{"path":"/a"}],"clusterConfiguration":{"dns":{"imageTag":"1"}},"joinConfiguration":{"discovery":{"bootstrapToken":{}}},` + initial + `}`),
	}
	current := cover.Objects{
		Machine: spec(`{"version":"v1","failureDomain":"z"}`), Infrastructure: spec(`{"size":"s","providerID":"p"}`),
		Bootstrap: kubeadm(`{"ntp":{"enabled":true},"clusterConfiguration":{"dns":{"imageTag":"0"},"controlPlaneEndpoint":"e"},"joinConfiguration":{"nodeRegistration":{"name":"n"}}}`),
	}
	const files, dns = `"files":[{"path":"/a"}]`, `"dns":{"imageTag":"1"}`
	for name, tt := range map[string]struct {
		// part is what desired differs in from what is asked for.
		part cover.Objects
		// noSource leaves out the source of all but the version.
		noSource bool
		want     []string
	}{
		"what is asked for": {},
		"what KubeadmControlPlane sets itself": {part: cover.Objects{
			Bootstrap: kubeadm(`{` + files + `,"format":"cloud-config","clusterConfiguration":{` + dns + `,"featureGates":{"ControlPlaneKubeletLocalMode":true}}}`),
		}},
		"that gate, switched off": {
			part: cover.Objects{Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{` + dns + `,"featureGates":{"ControlPlaneKubeletLocalMode":false}}}`)},
			want: []string{"BootstrapConfig /spec/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode"},
		},
		"another feature gate": {
			part: cover.Objects{Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{` + dns + `,"featureGates":{"EtcdLearnerMode":true}}}`)},
			want: []string{"BootstrapConfig /spec/clusterConfiguration/featureGates/EtcdLearnerMode"},
		},
		"another version":      {part: cover.Objects{Machine: spec(`{"version":"v3","failureDomain":"z"}`)}, want: []string{"Machine /spec/version"}},
		"the current version":  {part: cover.Objects{Machine: current.Machine}, want: []string{"Machine /spec/version"}},
		"another file":         {part: cover.Objects{Bootstrap: kubeadm(`{"files":[{"path":"/b"}],"clusterConfiguration":{` + dns + `}}`)}, want: []string{"BootstrapConfig /spec/files"}},
		"a file less":          {part: cover.Objects{Bootstrap: kubeadm(`{"clusterConfiguration":{` + dns + `}}`)}, want: []string{"BootstrapConfig /spec/files"}},
		"a field that is kept": {part: cover.Objects{Bootstrap: kubeadm(`{"ntp":{"enabled":true},` + files + `,"clusterConfiguration":{` + dns + `}}`)}},
		"other DNS": {
			part: cover.Objects{Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{"dns":{"imageTag":"evil"}}}`)},
			want: []string{"BootstrapConfig /spec/clusterConfiguration/dns/imageTag"},
		},
		"an endpoint": {
			part: cover.Objects{Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{` + dns + `,"controlPlaneEndpoint":"evil"}}`)},
			want: []string{"BootstrapConfig /spec/clusterConfiguration/controlPlaneEndpoint"},
		},
		"the live endpoint": {part: cover.Objects{Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{` + dns + `,"controlPlaneEndpoint":"e"}}`)}},
		"an init configuration": {
			part: cover.Objects{Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{` + dns + `},` + initial + `}`)},
			want: []string{"BootstrapConfig /spec/initConfiguration/nodeRegistration/kubeletExtraArgs"},
		},
		"another size, and fields beside it": {
			part: cover.Objects{Infrastructure: spec(`{"size":"l","disk":{"gb":1,"kind":"evil"},"providerID":"q"}`)},
			want: []string{"InfrastructureMachine /spec/disk/kind", "InfrastructureMachine /spec/providerID", "InfrastructureMachine /spec/size"},
		},
		"another kind": {part: cover.Objects{Infrastructure: []byte(`{"kind":"Y","spec":{"size":"m","disk":{"gb":1},"providerID":"p"}}`)}, want: []string{"InfrastructureMachine /kind"}},
		"changes without a source": {noSource: true, want: []string{
			"InfrastructureMachine /spec/disk/gb", "InfrastructureMachine /spec/size", "BootstrapConfig /spec/clusterConfiguration/controlPlaneEndpoint",
			"BootstrapConfig /spec/clusterConfiguration/dns/imageTag", "BootstrapConfig /spec/files", "BootstrapConfig /spec/joinConfiguration/nodeRegistration/name",
			"BootstrapConfig /spec/ntp/enabled",
		}},
		"no changes without a source": {
			part: cover.Objects{Infrastructure: current.Infrastructure, Bootstrap: current.Bootstrap}, noSource: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desired := cover.Objects{
				Machine: spec(`{"version":"v2","failureDomain":"z"}`), Infrastructure: spec(`{"size":"m","disk":{"gb":1},"providerID":"p"}`),
				Bootstrap: kubeadm(`{` + files + `,"clusterConfiguration":{` + dns + `},"joinConfiguration":{"controlPlane":{}}}`),
			}
			for _, part := range []struct{ from, to *[]byte }{
				{(*[]byte)(&tt.part.Machine), (*[]byte)(&desired.Machine)}, {(*[]byte)(&tt.part.Infrastructure), (*[]byte)(&desired.Infrastructure)},
				{(*[]byte)(&tt.part.Bootstrap), (*[]byte)(&desired.Bootstrap)},
			} {
				if *part.from != nil {
					*part.to = *part.from
				}
			}
			source := all
			if tt.noSource {
				source = cover.Objects{Machine: all.Machine}
			}
			list, err := cover.Unasked(current, desired, source)
			if diff := cmp.Diff(tt.want, pointersOf(t, list, err)); diff != "" {
				t.Errorf("Unasked (-want +got)\n%s", diff)
			}
		})
	}
}

// TestFingerprint is the same for the desired objects that a control plane sends and for those that it stores, and another one for any other content.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	of := func(machine, infrastructure, bootstrap string) string {
		t.Helper()
		f, err := cover.Fingerprint(cover.Objects{Machine: spec(machine), Infrastructure: spec(infrastructure), Bootstrap: kubeadm(bootstrap)})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	sent := of(`{"version":"v2"}`, `{}`, `{"format":"cloud-config","joinConfiguration":{"controlPlane":{}},"files":[{"path":"/a"}]}`)
	stored := of(`{"version":"v2","providerID":"p"}`, `{"providerID":"p"}`, `{"joinConfiguration":{"discovery":{"tlsBootstrapToken":"t"}},"clusterConfiguration":{"controlPlaneEndpoint":"e"},"files":[{"path":"/a"}]}`)
	if sent != stored {
		t.Error("what is sent is not what is stored")
	}
	for _, other := range []string{
		of(`{"version":"v3"}`, `{}`, `{"files":[{"path":"/a"}]}`), of(`{"version":"v2"}`, `{}`, `{"files":[{"path":"/b"}]}`), of(`{"version":"v2"}`, `{}`, `{}`),
	} {
		if other == sent {
			t.Error("other content has the same fingerprint")
		}
	}
}

// TestGarbageIsNotCompared returns an error for what is no object.
func TestGarbageIsNotCompared(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"{", "[]", "3"} {
		bad := cover.Objects{Bootstrap: []byte(garbage)}
		_, err1 := cover.NotLive(bad, cover.Objects{}, cover.Objects{})
		_, err2 := cover.Missing(bad, cover.Objects{})
		_, err3 := cover.Unasked(cover.Objects{}, bad, cover.Objects{})
		_, err4 := cover.Fingerprint(bad)
		_, err5 := cover.Differing(cover.Machine, cover.Objects{}, bad)
		for i, err := range []error{err1, err2, err3, err4, err5} {
			if err == nil {
				t.Errorf("%q: function %d takes it", garbage, i+1)
			}
		}
	}
}
