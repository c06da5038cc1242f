package risks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
)

func parse(s string) version.Version {
	if s == "" {
		return version.Version{}
	}
	return version.MustParse(s)
}

// TestBuiltIn matches real steps with what is built in.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	const zombies, oldAgents, older = "etcd-36-zombie-members", "k3s-132-old-agents", "rancher-older-release"
	for name, tt := range map[string]struct {
		facts    risks.Facts
		from, to string
		oldest   string
		workers  bool
		id, etcd string
		not      bool
	}{
		"k3s-io/k3s#13485":             {from: "v1.33.7+k3s1", to: "v1.34.3+k3s1", id: zombies, etcd: "etcd v3.5.25 -> v3.6.6"},
		"K3s by way of the safe build": {from: "v1.33.7+k3s3", to: "v1.34.3+k3s1", id: zombies, not: true},
		"K3s of an unknown etcd":       {from: "v1.33.7+k3s1", to: "v1.33.12+k3s1", id: zombies, etcd: "etcd v3.5.25 -> of unknown version"},
		"K3s from the safe build on":   {from: "v1.33.10+k3s1", to: "v1.34.3+k3s1", id: zombies, not: true},
		"K3s' learners from there on":  {from: "v1.33.10+k3s1", to: "v1.34.3+k3s1", id: "etcd-36-too-many-learners", not: true},
		"K3s with etcd 3.6":            {from: "v1.34.5+k3s1", to: "v1.36.3+k3s1", id: zombies, not: true},
		"RKE2 with etcd 3.6":           {from: "v1.35.4+rke2r1", to: "v1.36.3+rke2r1", id: zombies, not: true},
		"kubeadm alike":                {from: "v1.33.7", to: "v1.34.3", id: zombies, etcd: "etcd v3.5.24 -> v3.6.5"},
		"kubeadm to the last v1.34":    {from: "v1.33.13", to: "v1.34.13", id: zombies, etcd: "etcd v3.5.24 -> v3.6.5"},
		"kubeadm within v1.33":         {from: "v1.33.1", to: "v1.33.13", id: zombies, not: true},
		"kubeadm after etcd 3.6":       {from: "v1.34.3", to: "v1.35.4", id: zombies, not: true},
		"kubeadm whose etcd runs 3.5.26": {
			facts: risks.Facts{RunningEtcd: parse("v3.5.26"), RunningAt: parse("v1.33.7")},
			from:  "v1.33.7", to: "v1.34.3", id: zombies, not: true,
		},
		"kubeadm whose etcd ran 3.5.26 at another version": {
			facts: risks.Facts{RunningEtcd: parse("v3.5.26"), RunningAt: parse("v1.32.1")},
			from:  "v1.33.7", to: "v1.34.3", id: zombies, etcd: "etcd v3.5.24 -> v3.6.5",
		},
		"kubeadm that keeps a pinned etcd": {
			facts: risks.Facts{PinnedEtcd: parse("v3.5.25")}, from: "v1.33.7", to: "v1.34.3", id: zombies, not: true,
		},
		"kubeadm with a pin on 3.6 above an etcd that runs": {
			facts: risks.Facts{PinnedEtcd: parse("v3.6.5"), RunningEtcd: parse("v3.5.24"), RunningAt: parse("v1.33.7")},
			from:  "v1.33.7", to: "v1.34.3", id: zombies, etcd: "etcd v3.5.24 -> v3.6.5",
		},
		"RKE2 takes etcd 3.6 within v1.33": {from: "v1.33.7+rke2r1", to: "v1.33.11+rke2r1", id: zombies, etcd: "etcd v3.5.25 -> v3.6.7"},
		"RKE2 by way of the safe build":    {from: "v1.33.10+rke2r3", to: "v1.33.11+rke2r1", id: zombies, not: true},
		"RKE2 from v1.32":                  {from: "v1.32.11+rke2r1", to: "v1.33.11+rke2r1", id: zombies, etcd: "etcd v3.5.25 -> v3.6.7"},
		"RKE2 before that":                 {from: "v1.33.7+rke2r1", to: "v1.33.10+rke2r1", id: zombies, not: true},
		"k0s in its kubelet's spelling":    {from: "v1.33.1-k0s.0", to: "v1.34.2-k0s.0", id: zombies, etcd: "etcd of unknown version -> v3.6.6"},
		"k0s by way of a safe build":       {from: "v1.33.12+k0s.0", to: "v1.34.2+k0s.0", id: zombies, not: true},
		"k0s beside an etcd that stays": {
			facts: risks.Facts{EtcdStays: true}, from: "v1.33.1-k0s.0", to: "v1.34.2-k0s.0", id: zombies, not: true,
		},
		"a managed control plane": {
			facts: risks.Facts{Distribution: risks.DistributionOfKind("AWSManagedControlPlane")},
			from:  "v1.33.7", to: "v1.34.3", id: zombies, not: true,
		},
		"learners need two members":                {facts: risks.Facts{Machines: 1}, from: "v1.33.5", to: "v1.34.3", id: "etcd-36-too-many-learners", not: true},
		"learners of three":                        {facts: risks.Facts{Machines: 3}, from: "v1.33.5", to: "v1.34.3", id: "etcd-36-too-many-learners", etcd: "etcd v3.5.21 -> v3.6.5"},
		"learners are safe from 3.5.24":            {facts: risks.Facts{Machines: 3}, from: "v1.33.6", to: "v1.34.3", id: "etcd-36-too-many-learners", not: true},
		"external etcd is not what kubeadm brings": {facts: risks.Facts{Etcd: risks.External}, from: "v1.33.5", to: "v1.34.3", id: "etcd-36-v2store-data", etcd: "etcd of unknown version -> of unknown version"},
		"stacked etcd has no v2 data":              {facts: risks.Facts{Etcd: risks.Stacked}, from: "v1.33.5", to: "v1.34.3", id: "etcd-36-v2store-data", not: true},
		"StatefulSets":                             {from: "v1.33.5", to: "v1.34.1", id: "statefulset-134-rollout"},
		"StatefulSets on EKS-D":                    {from: "v1.33.5-eks-1-33-9", to: "v1.34.1-eks-1-34-5", id: "statefulset-134-rollout"},
		"StatefulSets on K3s":                      {from: "v1.33.7+k3s3", to: "v1.34.1+k3s1", id: "statefulset-134-rollout"},
		"StatefulSets with the fix":                {from: "v1.33.5", to: "v1.34.2", id: "statefulset-134-rollout", not: true},
		"StatefulSets that have rolled":            {from: "v1.34.0", to: "v1.34.1", id: "statefulset-134-rollout", not: true},
		"StatefulSets and workers":                 {from: "v1.33.5", to: "v1.34.1", workers: true, id: "statefulset-134-rollout", not: true},
		"cgroup v1 of workers that jump":           {from: "v1.33.5", to: "v1.35.4", workers: true, id: "kubelet-135-cgroup-v1"},
		"cgroup v1 beside v1.35":                   {from: "v1.35.1", to: "v1.36.4", id: "kubelet-135-cgroup-v1", not: true},
		"the only machine":                         {facts: risks.Facts{Machines: 1}, from: "v1.29.9", to: "v1.30.0", id: "kubeadm-130-single-machine"},
		"not the only machine":                     {facts: risks.Facts{Machines: 3}, from: "v1.29.9", to: "v1.30.0", id: "kubeadm-130-single-machine", not: true},
		"an old pinned etcd":                       {facts: risks.Facts{PinnedEtcd: parse("v3.5.9")}, from: "v1.30.9", to: "v1.31.2", id: "kubeadm-131-pinned-etcd", etcd: "etcd v3.5.9 -> v3.5.9"},
		"a kernel of RHEL 8":                       {facts: hosts("4.18.0-553.el8.x86_64", "containerd://2.1.6", "RHEL"), from: "v1.32.9", to: "v1.33.5", workers: true, id: "kubeadm-133-kernel"},
		"one kernel of RHEL 8 among others":        {facts: risks.Facts{Hosts: []risks.Host{{Kernel: "6.8.0-79-generic"}, {Kernel: "4.18.0"}}}, from: "v1.32.9", to: "v1.33.5", id: "kubeadm-133-kernel"},
		"a kernel of RHEL 8 joins":                 {facts: hosts("4.18.0-553.el8.x86_64", "", ""), from: "v1.31.4", to: "v1.32.0", id: "kubeadm-132-kernel"},
		"it has joined":                            {facts: hosts("4.18.0-553.el8.x86_64", "", ""), from: "v1.32.4", to: "v1.33.0", id: "kubeadm-132-kernel", not: true},
		"kubeadm ignores the kernel":               {facts: risks.Facts{Hosts: []risks.Host{{Kernel: "4.18.0", Unverified: true}}}, from: "v1.31.4", to: "v1.32.0", id: "kubeadm-132-kernel", not: true},
		"a machine of which nothing is known":      {facts: risks.Facts{Hosts: []risks.Host{{}, {Kernel: "6.8.0"}}}, from: "v1.32.9", to: "v1.33.5", id: "kubeadm-133-kernel"},
		"kernels that nobody knows":                {from: "v1.32.9", to: "v1.33.5", id: "kubeadm-133-kernel"},
		"newer kernels":                            {facts: hosts("4.19.0-27-amd64", "", ""), from: "v1.32.9", to: "v1.33.5", id: "kubeadm-133-kernel", not: true},
		"kernels of 6.x":                           {facts: hosts("6.8.0-79-generic", "", ""), from: "v1.32.9", to: "v1.33.5", id: "kubeadm-133-kernel", not: true},
		"containerd 2":                             {facts: hosts("", "containerd://2.1.6", ""), from: "v1.35.4", to: "v1.36.1", id: "kubelet-138-containerd-1", not: true},
		"containerd 1":                             {facts: hosts("", "containerd://1.7.27", ""), from: "v1.35.4", to: "v1.36.1", id: "kubelet-138-containerd-1"},
		"Talos v1.12 and v1.36":                    {facts: talos("Talos (v1.12.7)"), from: "v1.35.4", to: "v1.36.0", id: "talos-112-kubernetes-136"},
		"Talos v1.13 and v1.36":                    {facts: talos("Talos (v1.13.0)"), from: "v1.35.4", to: "v1.36.0", id: "talos-112-kubernetes-136", not: true},
		"Talos v1.9 and v1.35":                     {facts: talos("Talos (v1.9.5)"), from: "v1.34.4", to: "v1.35.0", workers: true, id: "talos-111-kubernetes-135"},
		"Talos v1.12 and v1.35":                    {facts: talos("Talos (v1.12.7)"), from: "v1.34.4", to: "v1.35.0", id: "talos-111-kubernetes-135", not: true},
		"files for the containerd of k0s":          {from: "v1.35.4+k0s.0", to: "v1.36.1+k0s.0", workers: true, id: "k0s-136-containerd-config"},
		"an etcd pinned before v3.6": {
			facts: risks.Facts{PinnedEtcd: risks.EtcdOfTag("v3.5.21-eks-1-35-9"), Etcd: risks.Stacked},
			from:  "v1.35.4-eks-1-35-9", to: "v1.36.0-eks-1-36-2", id: "kubeadm-136-etcd-35", etcd: "etcd v3.5.21 -> v3.5.21",
		},
		"kubeadm's own etcd":                      {from: "v1.35.4", to: "v1.36.1", id: "kubeadm-136-etcd-35", not: true},
		"external etcd gets no flags of kubeadm":  {facts: risks.Facts{Etcd: risks.External}, from: "v1.35.4", to: "v1.36.1", id: "kubeadm-136-etcd-35", not: true},
		"the certificate for kubelets":            {from: "v1.34.6", to: "v1.35.5", id: "kubeadm-kubelet-client-binding"},
		"the certificate for kubelets, before":    {from: "v1.34.6", to: "v1.35.4", id: "kubeadm-kubelet-client-binding", not: true},
		"no pinned etcd":                          {from: "v1.30.9", to: "v1.31.2", id: "kubeadm-131-pinned-etcd", not: true},
		"K3s with flannel that reads all Nodes":   {from: "v1.31.3+k3s1", to: "v1.32.10+k3s1", id: oldAgents},
		"k3s-io/k3s#7537, with versions of today": {from: "v1.34.8+k3s1", to: "v1.35.0+k3s1", id: older},
		"K3s' agents, too":                        {from: "v1.34.8+k3s1", to: "v1.35.0+k3s1", workers: true, id: older},
		"K3s to the release of the same month":    {from: "v1.34.8+k3s1", to: "v1.35.5+k3s1", id: older, not: true},
		"K3s to a release of a month before":      {from: "v1.34.8+k3s1", to: "v1.35.4+k3s1", id: older, not: true},
		"K3s to the first of the next minor":      {from: "v1.34.2+k3s1", to: "v1.35.0+k3s1", id: older, not: true},
		"RKE2 to an older release":                {from: "v1.33.12+rke2r1", to: "v1.34.2+rke2r1", id: older},
		"kubeadm brings no packaged components":   {from: "v1.34.8", to: "v1.35.0", id: older, not: true},
		"K3s v1.31.4":                             {from: "v1.31.4+k3s1", to: "v1.32.0+k3s1", id: oldAgents},
		"K3s v1.31.5":                             {from: "v1.31.5+k3s1", to: "v1.32.10+k3s1", id: oldAgents, not: true},
		"K3s v1.31.14":                            {from: "v1.31.14+k3s1", to: "v1.32.10+k3s1", id: oldAgents, not: true},
		"K3s within v1.31":                        {from: "v1.31.3+k3s1", to: "v1.31.14+k3s1", id: oldAgents, not: true},
		"K3s agents move":                         {from: "v1.31.3+k3s1", to: "v1.32.10+k3s1", workers: true, id: oldAgents, not: true},
		"K3s agents of v1.30.8 beside v1.31.14":   {oldest: "v1.30.8+k3s1", from: "v1.31.14+k3s1", to: "v1.32.10+k3s1", id: oldAgents},
		"K3s agents of v1.30.9 beside v1.31.14":   {oldest: "v1.30.9+k3s1", from: "v1.31.14+k3s1", to: "v1.32.10+k3s1", id: oldAgents, not: true},
		"flannel of RKE2":                         {from: "v1.31.3+rke2r1", to: "v1.32.10+rke2r1", id: oldAgents, not: true},
	} {
		step := risks.Step{
			From: parse(tt.from), To: parse(tt.to), Workers: tt.workers, Oldest: parse(tt.oldest),
		}
		found := risks.BuiltIn().Of(tt.facts, step)
		at := slices.IndexFunc(found, func(a risks.Applied) bool { return a.ID == tt.id })
		if at < 0 != tt.not {
			t.Errorf("%s: %s -> %s: %s applies: %v, want %v", name, tt.from, tt.to, tt.id, at >= 0, !tt.not)
		} else if at >= 0 && found[at].Etcd != tt.etcd {
			t.Errorf("%s: %q, want %q", name, found[at].Etcd, tt.etcd)
		}
	}
}

// TestOldestNodes: workers count at the version that they have while the control plane makes a step.
func TestOldestNodes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		steps []string
		want  string
	}{
		"agents follow their servers": {
			steps: []string{"CP v1.31.3 v1.31.14", "workers v1.31.3 v1.31.14", "CP v1.31.14 v1.32.10", "workers v1.31.14 v1.32.10"},
		},
		"agents stay behind": {
			steps: []string{"CP v1.31.3 v1.31.14", "CP v1.31.14 v1.32.10", "workers v1.31.3 v1.32.10"},
			want:  "CP v1.31.14+k3s1 -> v1.32.10+k3s1",
		},
		"one group stays behind": {
			steps: []string{"workers v1.30.8 v1.31.14", "CP v1.31.14 v1.32.10", "workers v1.31.14 v1.32.10", "workers v1.30.8 v1.32.10"},
			want:  "CP v1.31.14+k3s1 -> v1.32.10+k3s1",
		},
	} {
		var steps []risks.Step
		for _, text := range tt.steps {
			words := strings.Fields(text)
			steps = append(steps, risks.Step{
				Workers: words[0] != "CP", From: parse(words[1] + "+k3s1"), To: parse(words[2] + "+k3s1"),
			})
		}
		got := ""
		for _, f := range risks.BuiltIn().OfAll(risks.Facts{}, steps) {
			if f.ID == "k3s-132-old-agents" {
				got = f.Where()
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func hosts(kernel, runtime, os string) risks.Facts {
	return risks.Facts{Hosts: []risks.Host{{Kernel: kernel, Runtime: runtime, OS: os}}}
}

func talos(os string) risks.Facts {
	facts := hosts("6.18.24-talos", "containerd://2.1.6", os)
	facts.Distribution = risks.Talos
	return facts
}

// TestBuiltInIsComplete: at least ten risks, of all minors from v1.28 to v1.36.
func TestBuiltInIsComplete(t *testing.T) {
	t.Parallel()
	set := risks.BuiltIn()
	if len(set.Risks) < 10 {
		t.Errorf("%d risks", len(set.Risks))
	}
	for minor := 28; minor <= 36; minor++ {
		found := 0
		for patch := range 15 {
			to := parse(fmt.Sprintf("v1.%d.%d", minor, patch))
			from := parse(fmt.Sprintf("v1.%d.%d", minor-1, patch))
			found += len(set.Of(risks.Facts{}, risks.Step{From: from, To: to}))
		}
		if found == 0 {
			t.Errorf("no step to v1.%d has a risk", minor)
		}
	}
	for _, r := range set.Risks {
		if r.Kind == risks.Warning && r.Condition == "" {
			t.Errorf("%s: a warning without a condition", r.ID)
		}
		for _, text := range []string{r.Summary, r.Condition, r.Fix} {
			if strings.Contains(text, "Fix:") || strings.HasSuffix(text, " ") {
				t.Errorf("%s: %q", r.ID, text)
			}
		}
	}
}

func anyVersion() *rapid.Generator[version.Version] {
	return rapid.Custom(func(t *rapid.T) version.Version {
		return version.MustParse(rapid.StringMatching(
			`v1\.(2[89]|3[0-6])\.([0-9]|1[0-4])(-rc\.1|\+k3s[1-3]|\+rke2r[1-3]|\+vmware\.[12]|-k0s\.0|-eks-1-33-9)?`).Draw(t, "version"))
	})
}

// TestNoRiskWithoutAStep: no risk is of a step that goes nowhere or back, and the answer is always the
// same.
func TestNoRiskWithoutAStep(t *testing.T) {
	t.Parallel()
	set := risks.BuiltIn()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyVersion().Draw(t, "a"), anyVersion().Draw(t, "b")
		facts := risks.Facts{Machines: rapid.IntRange(0, 3).Draw(t, "machines")}
		step := risks.Step{From: a, To: b, Workers: rapid.Bool().Draw(t, "workers")}
		found := set.Of(facts, step)
		again := set.Of(facts, step)
		if !slices.Equal(found, again) {
			t.Fatalf("%v, then %v", found, again)
		}
		back := set.Of(facts, risks.Step{From: b, To: a})
		if version.Compare(a, b) != version.Unordered && len(found) > 0 && len(back) > 0 {
			t.Fatalf("%s -> %s and back have risks", a, b)
		}
		if same := set.Of(facts, risks.Step{From: a, To: a}); len(same) > 0 {
			t.Fatalf("%s -> %s has risks", a, a)
		}
		for _, f := range found {
			for _, m := range f.Match {
				if len(f.Match) == 1 && len(m.From) == 0 && slices.ContainsFunc(m.To, func(r risks.Range) bool { return r.Contains(a) }) {
					t.Fatalf("%s: %s -> %s brings nothing new", f.ID, a, b)
				}
			}
		}
	})
}

func TestRange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		atLeast, before, version string
		want                     bool
	}{
		{"v1.34.0", "v1.34.2", "v1.34.0", true},
		{"v1.34.0", "v1.34.2", "v1.34.1", true},
		{"v1.34.0", "v1.34.2", "v1.34.2", false},
		{"v1.34.0", "v1.34.2", "v1.34.2+k3s1", false},
		{"v1.34.0", "v1.34.2", "v1.34.2-rc.1", false},
		{"v1.34.0", "v1.34.2", "v1.34.0-rc.1", true},
		{"v1.34.0", "v1.34.2", "v1.34.0-eks-1-34-1", true},
		{"v1.34.0", "v1.34.2", "v1.33.9", false},
		{"v1.33.7+rke2r3", "", "v1.33.7+rke2r1", false},
		{"v1.33.7+rke2r3", "", "v1.33.7+rke2r10", true},
		{"v1.33.7+rke2r3", "", "v1.33.7", false},
		{"", "v1.33.7+k3s3", "v1.33.7+k3s2", true},
		{"", "v1.33.7+k3s3", "v1.33.7+k3s10", false},
		{"", "v1.33.7+k3s3", "v1.33.7+other", true},
		{"v1.33.7+k3s3", "", "v1.33.7+other", true},
	} {
		r := risks.Range{AtLeast: parse(tt.atLeast), Before: parse(tt.before)}
		if got := r.Contains(parse(tt.version)); got != tt.want {
			t.Errorf("[%s, %s) contains %s: %v", tt.atLeast, tt.before, tt.version, got)
		}
	}
}
