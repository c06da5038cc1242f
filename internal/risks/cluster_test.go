package risks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/risks"
)

func fact(name risks.ClusterFact, a risks.Answer) risks.Facts {
	answers := make(map[risks.ClusterFact]risks.Answer)
	answers[name] = a
	return risks.Facts{Cluster: answers}
}

func canonical(datastore risks.Answer) risks.Facts {
	facts := fact(risks.DqliteDatastore, datastore)
	facts.Distribution = risks.Canonical
	return facts
}

// TestConfirmed: a warning with a condition is confirmed by a machine or a fact that shows it, and by
// nothing that is unknown. Floors and blocks ask for another version, whatever their condition.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	yes, no := risks.Answer{Known: true, Holds: true, Seen: "seen"}, risks.Answer{Known: true}
	const dra, binding, kernel = "dra-storage-v1", "kubeadm-kubelet-client-binding", "kubeadm-132-kernel"
	for name, tt := range map[string]struct {
		facts         risks.Facts
		from, to, id  string
		applies, want bool
		seen          string
	}{
		"a condition alone":       {from: "v1.34.6", to: "v1.35.4", id: "kubelet-135-cgroup-v1", applies: true},
		"no condition":            {from: "v1.35.4", to: "v1.36.1", id: "kubelet-136-memory-leak", applies: true, want: true},
		"a block":                 {from: "v1.33.5", to: "v1.34.1", id: "statefulset-134-rollout", applies: true, want: true},
		"a floor":                 {from: "v1.33.5", to: "v1.34.3", id: "etcd-36-zombie-members", applies: true, want: true},
		"a fact not known":        {from: "v1.34.6", to: "v1.35.4", id: dra, applies: true},
		"a fact that holds":       {facts: fact(risks.HasDevices, yes), from: "v1.34.6", to: "v1.35.4", id: dra, applies: true, want: true, seen: "seen"},
		"a fact that does not":    {facts: fact(risks.HasDevices, no), from: "v1.34.6", to: "v1.35.4", id: dra},
		"another fact":            {facts: fact(risks.KubeletClientUnbound, yes), from: "v1.34.6", to: "v1.35.4", id: dra, applies: true},
		"bound":                   {facts: fact(risks.KubeletClientUnbound, no), from: "v1.35.4", to: "v1.36.1", id: binding},
		"not bound":               {facts: fact(risks.KubeletClientUnbound, yes), from: "v1.35.4", to: "v1.36.1", id: binding, applies: true, want: true, seen: "seen"},
		"kernels not known":       {from: "v1.31.4", to: "v1.32.0", id: kernel, applies: true},
		"a Node without a kernel": {facts: risks.Facts{Hosts: []risks.Host{{}}}, from: "v1.31.4", to: "v1.32.0", id: kernel, applies: true},
		"a kernel":                {facts: hosts("4.18.0", "", ""), from: "v1.31.4", to: "v1.32.0", id: kernel, applies: true, want: true},
		"Traefik 2":               {facts: fact(risks.Traefik2Values, yes), from: "v1.31.9+k3s1", to: "v1.32.5+k3s1", id: "rancher-132-traefik-3", applies: true, want: true, seen: "seen"},
		"Traefik 2 before":        {facts: fact(risks.Traefik2Values, yes), from: "v1.30.9+k3s1", to: "v1.31.9+k3s1", id: "rancher-132-traefik-3"},
		"k0s' images":             {facts: fact(risks.K0sPinnedImages, yes), from: "v1.29.4+k0s.0", to: "v1.30.2+k0s.0", id: "k0s-pinned-images", applies: true, want: true, seen: "seen"},
		"k0s' images, newer":      {facts: fact(risks.K0sPinnedImages, yes), from: "v1.34.6+k0s.0", to: "v1.35.4+k0s.0", id: "k0s-pinned-images", applies: true, want: true, seen: "seen"},
		"k0s' own images":         {facts: fact(risks.K0sPinnedImages, no), from: "v1.34.6+k0s.0", to: "v1.35.4+k0s.0", id: "k0s-pinned-images"},
		"images of another":       {facts: fact(risks.K0sPinnedImages, yes), from: "v1.34.6", to: "v1.35.4", id: "k0s-pinned-images"},
		"k8s-dqlite":              {facts: canonical(yes), from: "v1.35.4", to: "v1.36.1", id: "canonical-k8s-dqlite", applies: true, want: true, seen: "seen"},
		"k8s-dqlite before":       {facts: canonical(yes), from: "v1.34.8", to: "v1.35.4", id: "canonical-k8s-dqlite"},
		"etcd":                    {facts: canonical(no), from: "v1.35.4", to: "v1.36.1", id: "canonical-k8s-dqlite"},
		"a default datastore":     {facts: canonical(risks.Answer{}), from: "v1.35.4", to: "v1.36.1", id: "canonical-k8s-dqlite", applies: true},
		"Traefik 3":               {facts: fact(risks.Traefik2Values, no), from: "v1.31.9+rke2r1", to: "v1.32.5+rke2r1", id: "rancher-132-traefik-3"},
	} {
		applies, confirmed, seen := false, false, ""
		steps := []risks.Step{{From: parse(tt.from), To: parse(tt.to)}}
		for _, f := range risks.BuiltIn().OfAll(tt.facts, steps) {
			if f.ID == tt.id {
				applies = true
				seen, confirmed = f.Confirmed()
			}
		}
		if applies != tt.applies || confirmed != tt.want || seen != tt.seen {
			t.Errorf("%s: applies %v, confirmed %v by %q", name, applies, confirmed, seen)
		}
	}
}

// TestUnknown: the facts to ask for are those that risks of the steps depend on, and that are not known.
func TestUnknown(t *testing.T) {
	t.Parallel()
	steps := []risks.Step{
		{From: parse("v1.34.6"), To: parse("v1.35.5")}, {From: parse("v1.35.5"), To: parse("v1.36.3")},
	}
	for name, tt := range map[string]struct {
		facts risks.Facts
		steps []risks.Step
		want  []risks.ClusterFact
	}{
		"no step":  {},
		"no facts": {steps: steps, want: []risks.ClusterFact{risks.HasDevices, risks.KubeletClientUnbound}},
		"of a managed control plane": {
			facts: risks.Facts{Distribution: risks.Other}, steps: steps, want: []risks.ClusterFact{risks.HasDevices},
		},
		"one is known": {
			facts: fact(risks.HasDevices, risks.Answer{Known: true, Holds: true}),
			steps: steps, want: []risks.ClusterFact{risks.KubeletClientUnbound},
		},
	} {
		if diff := cmp.Diff(tt.want, risks.BuiltIn().Unknown(tt.facts, tt.steps)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnboundKubeletClient(t *testing.T) {
	t.Parallel()
	unknown, bound, missing := risks.Answer{}, risks.Answer{Known: true, Holds: true}, risks.Answer{Known: true}
	for _, tt := range []struct {
		provider     string
		bound        risks.Answer
		known, holds bool
	}{
		{"", unknown, false, false},
		{"", bound, true, false},
		{"", missing, false, false},
		{"v1.13.1", unknown, false, false},
		{"v1.13.1", bound, true, false},
		{"v1.13.1", missing, true, true},
		{"v1.10.4", missing, true, true},
		{"v1.12.7", missing, true, true},
		{"v1.12.8", unknown, true, false},
		{"v1.11.10", missing, true, true},
		{"v1.11.11", missing, true, false},
		{"v1.13.2", unknown, true, false},
		{"v1.14.0", missing, true, false},
	} {
		provider := parse(tt.provider)
		got := risks.UnboundKubeletClient(provider, tt.bound)
		if got.Known != tt.known || got.Holds != tt.holds {
			t.Errorf("%q, %+v: %+v", tt.provider, tt.bound, got)
		}
	}
}
