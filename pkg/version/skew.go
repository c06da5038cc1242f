package version

import (
	"fmt"
	"slices"
)

// SkewPolicy is a version skew policy as data: how far a kubelet may lag behind the API server it talks to. A kubelet
// is never newer than its API server under any policy.
type SkewPolicy struct {
	// Name is how a person selects the policy.
	Name string
	// Rules are tried in order; the first that applies decides. A policy without an applicable rule allows no lag.
	Rules []SkewRule
}

// SkewRule is one row of a SkewPolicy.
type SkewRule struct {
	// KubeletFrom and ControlPlaneFrom bound the rule: it applies to kubelets and control planes at these minors or newer.
	// Zero values apply to all.
	KubeletFrom, ControlPlaneFrom Minor
	// MaxLag is the greatest number of minors that the kubelet may be behind.
	MaxLag uint32
	// Source is where the rule stands.
	Source string
}

const upstreamSkewSource = "https://kubernetes.io/releases/version-skew-policy/"

var skewPolicies = []SkewPolicy{
	{
		Name: "kubernetes",
		Rules: []SkewRule{
			// KEP-3935 extended the supported lag to three minors, from control plane v1.28 and kubelet v1.25 on.
			{KubeletFrom: Minor{1, 25}, ControlPlaneFrom: Minor{1, 28}, MaxLag: 3, Source: upstreamSkewSource + " (KEP-3935)"},
			{KubeletFrom: Minor{1, 25}, MaxLag: 2, Source: upstreamSkewSource},
			{MaxLag: 2, Source: upstreamSkewSource + " (kubelet older than v1.25)"},
		},
	},
	{
		Name: "k0s",
		Rules: []SkewRule{
			{ControlPlaneFrom: Minor{1, 36}, MaxLag: 1, Source: "k0s v1.36"},
			{KubeletFrom: Minor{1, 25}, ControlPlaneFrom: Minor{1, 28}, MaxLag: 3, Source: upstreamSkewSource + " (KEP-3935)"},
			{MaxLag: 2, Source: upstreamSkewSource},
		},
	},
}

// KubernetesSkew returns the policy of upstream Kubernetes, the default everywhere.
func KubernetesSkew() SkewPolicy { return cloneSkew(skewPolicies[0]) }

// SkewPolicies returns every policy in the table, the default first.
func SkewPolicies() []SkewPolicy {
	policies := make([]SkewPolicy, 0, len(skewPolicies))
	for _, p := range skewPolicies {
		policies = append(policies, cloneSkew(p))
	}
	return policies
}

func cloneSkew(p SkewPolicy) SkewPolicy {
	p.Rules = slices.Clone(p.Rules)
	return p
}

// MaxLag returns how many minors a kubelet of this minor may be behind a control plane of that one.
func (p SkewPolicy) MaxLag(kubelet, controlPlane Minor) uint32 {
	for _, r := range p.Rules {
		if !kubelet.Before(r.KubeletFrom) && !controlPlane.Before(r.ControlPlaneFrom) {
			return r.MaxLag
		}
	}
	return 0
}

// Farthest returns the greatest lag that the policy allows to any kubelet.
func (p SkewPolicy) Farthest() uint32 {
	farthest := uint32(0)
	for _, r := range p.Rules {
		farthest = max(farthest, r.MaxLag)
	}
	return farthest
}

// Allows reports whether a kubelet of this minor may run against a control plane of that one.
func (p SkewPolicy) Allows(kubelet, controlPlane Minor) bool {
	lag, ok := kubelet.Lag(controlPlane)
	return ok && lag <= p.MaxLag(kubelet, controlPlane)
}

// FindSkewPolicy returns the policy of that name, or an error that lists the names there are.
func FindSkewPolicy(name string) (SkewPolicy, error) {
	names := make([]string, 0, len(skewPolicies))
	for _, p := range skewPolicies {
		if p.Name == name {
			return cloneSkew(p), nil
		}
		names = append(names, p.Name)
	}
	return SkewPolicy{}, fmt.Errorf("unknown skew policy %q: choose one of %q", name, names)
}
