package updatepolicy_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

const publicKey = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"

func hostUpdater(maxMinors int32, edit func(*v1alpha1.HostConfig)) *v1alpha1.Updater {
	config := &v1alpha1.HostConfig{
		SSH: &v1alpha1.HostSSH{SecretName: "s"}, Binaries: v1alpha1.HostBinaries{
			HostFolder: "/opt/kubernetes", Digests: v1alpha1.HostDigests{Manifest: strings.Repeat("0a", 32) + "  v1.36.3/linux/amd64/kubelet"},
		},
	}
	if edit != nil {
		edit(config)
	}
	return &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: v1alpha1.UpdaterSpec{
		InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.KubeadmUpdater, Host: config}, Transitions: v1alpha1.Transitions{MaxMinors: maxMinors},
	}}
}

func TestCheckHostUpdaters(t *testing.T) {
	t.Parallel()
	digests := func(d v1alpha1.HostDigests) func(*v1alpha1.HostConfig) {
		return func(c *v1alpha1.HostConfig) { c.Binaries.Digests = d }
	}
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.HostConfig)
		// want is a part of the message; empty where there is no error.
		want string
	}{
		"by SSH": {},
		"by a Pod": {edit: func(c *v1alpha1.HostConfig) {
			c.SSH, c.Pod = nil, &v1alpha1.HostPod{Image: "i"}
		}},
		"pinned":               {edit: digests(v1alpha1.HostDigests{ConfigMapName: "d", SHA256: strings.Repeat("0", 64)})},
		"signed":               {edit: digests(v1alpha1.HostDigests{ConfigMapName: "d", PublicKey: publicKey})},
		"no way":               {edit: func(c *v1alpha1.HostConfig) { c.SSH = nil }, want: "spec.inProcess.host: Required value: set exactly one of ssh and pod"},
		"two ways":             {edit: func(c *v1alpha1.HostConfig) { c.Pod = &v1alpha1.HostPod{} }, want: "set exactly one of ssh and pod"},
		"no binaries":          {edit: func(c *v1alpha1.HostConfig) { c.Binaries.HostFolder = "" }, want: "spec.inProcess.host.binaries: Required value: set exactly one of url, hostFolder and bundle"},
		"two sources":          {edit: func(c *v1alpha1.HostConfig) { c.Binaries.Bundle = "/b" }, want: "set exactly one of url, hostFolder and bundle"},
		"no digests":           {edit: digests(v1alpha1.HostDigests{}), want: "spec.inProcess.host.binaries.digests: Required value: set exactly one of manifest and configMapName"},
		"two manifests":        {edit: digests(v1alpha1.HostDigests{Manifest: "x", ConfigMapName: "d"}), want: "set exactly one of manifest and configMapName"},
		"neither pin nor key":  {edit: digests(v1alpha1.HostDigests{ConfigMapName: "d"}), want: "with configMapName, set exactly one of sha256 and publicKey"},
		"a manifest of words":  {edit: digests(v1alpha1.HostDigests{Manifest: "kubelet"}), want: "binaries.digests.manifest: Invalid value: line 1 of the manifest of digests is not a SHA-256 and a name"},
		"an empty manifest":    {edit: digests(v1alpha1.HostDigests{Manifest: "# none\n"}), want: "the manifest of digests is empty"},
		"a key that is none":   {edit: digests(v1alpha1.HostDigests{ConfigMapName: "d", PublicKey: "-----BEGIN PUBLIC KEY-----"}), want: "binaries.digests.publicKey: Invalid value: the public key for the manifest of digests is not in PEM"},
		"a key that is broken": {edit: digests(v1alpha1.HostDigests{ConfigMapName: "d", PublicKey: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"}), want: "reading the public key for the manifest of digests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := updatepolicy.CheckUpdater(hostUpdater(0, tt.edit))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	const together = "set host where kind is Kubeadm, RKE2 or K3s, and only there"
	without, other := hostUpdater(0, nil), hostUpdater(0, nil)
	without.Spec.InProcess.Host = nil
	other.Spec.InProcess.Kind, other.Spec.InProcess.K8sd = v1alpha1.K8sdUpdater, &v1alpha1.K8sdConfig{}
	for _, u := range []*v1alpha1.Updater{without, other} {
		if err := updatepolicy.CheckUpdater(u); err == nil || !strings.Contains(err.Error(), together) {
			t.Errorf("kind %s: %v", u.Spec.InProcess.Kind, err)
		}
	}
}

// TestHostsGoThroughEachMinor holds that no number of an Updater has a host skip a minor.
func TestHostsGoThroughEachMinor(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.InProcessKind{v1alpha1.KubeadmUpdater, v1alpha1.RKE2Updater, v1alpha1.K3sUpdater} {
		for _, maxMinors := range []int32{0, 1, 3} {
			u := hostUpdater(maxMinors, nil)
			u.Spec.InProcess.Kind = kind
			if got, limit := updatepolicy.MaxMinors(u), updatepolicy.MinorLimit([]v1alpha1.Updater{*u}); got != 1 || limit != 1 {
				t.Errorf("%s with maxMinors %d moves %d, limit %d", kind, maxMinors, got, limit)
			}
		}
	}
	other := updater("other", 0)
	for _, maxMinors := range []int32{0, 1, 3} {
		other.Spec.Transitions.MaxMinors = maxMinors
		if got := updatepolicy.MaxMinors(&other); got != int(maxMinors) {
			t.Errorf("another kind with maxMinors %d moves %d", maxMinors, got)
		}
	}
}
