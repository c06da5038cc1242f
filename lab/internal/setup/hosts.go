package setup

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// HostUpdaterName is the name of the Updater that AddHostUpdater registers, and of the UpdatePolicy that
// KeepHosts writes.
const HostUpdaterName = "kubeadm-hosts"

// hostLogins is the name of the Secret that WriteHostLogins writes, as an Updater has it.
const hostLogins = "{cluster}-ssh"

// AddHostUpdater registers the updater of kind Kubeadm for the hosts of AddHostProvider, on a plane where
// the extension runs: by SSH, with the binaries of a mirror. An update of a machine needs the Secret that
// WriteHostLogins writes.
func AddHostUpdater(ctx context.Context, plane *devplane.Plane, mirror kube.Mirror) error {
	c, err := Connect(plane)
	if err != nil {
		return err
	}
	updater := &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: HostUpdaterName},
		Spec: v1alpha1.UpdaterSpec{
			InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.KubeadmUpdater, Host: &v1alpha1.HostConfig{
				SSH: &v1alpha1.HostSSH{SecretName: hostLogins},
				Binaries: v1alpha1.HostBinaries{
					HostFolder: mirror.Dir, Digests: v1alpha1.HostDigests{Manifest: mirror.Digests},
				},
			}},
			Transitions: v1alpha1.Transitions{MaxMinors: 1, NeedsDrain: true},
		},
	}
	if err := Apply(ctx, c, updater); err != nil {
		return err
	}
	return awaitUpdater(ctx, c, HostUpdaterName)
}

// WriteHostLogins writes the Secret with which the updater logs in to the hosts of a Cluster: those that the
// site has now. Call it again when there are other hosts.
func WriteHostLogins(
	ctx context.Context, plane *devplane.Plane, rented *site.Client, cluster client.ObjectKey,
) error {
	c, err := Connect(plane)
	if err != nil {
		return err
	}
	hosts, err := rented.Hosts(ctx)
	if err != nil {
		return fmt.Errorf("listing the site's hosts: %w", err)
	}
	var identity []byte
	var known bytes.Buffer
	for _, host := range hosts {
		login, err := rented.Login(ctx, host.ID)
		if err != nil {
			return fmt.Errorf("reading the keys of host %s: %w", host.Name, err)
		}
		identity = login.Identity
		known.Write(login.KnownHosts)
	}
	return Apply(ctx, c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: cluster.Name + "-ssh",
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
		},
		Data: map[string][]byte{corev1.SSHAuthPrivateKey: identity, "known_hosts": known.Bytes()},
	})
}

// KeepHosts writes the UpdatePolicy by which machines of a Cluster are drained, updated in place and never
// replaced: all machines, or only those of the control plane and of MachineDeployments that are named.
func KeepHosts(
	ctx context.Context, plane *devplane.Plane, cluster client.ObjectKey, only ...v1alpha1.UpdateTarget,
) error {
	c, err := Connect(plane)
	if err != nil {
		return err
	}
	if len(only) == 0 {
		only = []v1alpha1.UpdateTarget{{}}
	}
	policy := &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: HostUpdaterName},
		Spec: v1alpha1.UpdatePolicySpec{
			Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, Drain: true,
			// KubeadmControlPlane sets a feature gate of kubeadm up to v1.35, and removes it from v1.36 on.
			IgnorePaths: []v1alpha1.IgnorePath{
				{Object: v1alpha1.IgnoreBootstrap, Path: "/spec/clusterConfiguration/featureGates"},
			},
		},
	}
	for _, target := range only {
		target.ClusterName = cluster.Name
		policy.Spec.Targets = append(policy.Spec.Targets, target)
	}
	return Apply(ctx, c, policy)
}
