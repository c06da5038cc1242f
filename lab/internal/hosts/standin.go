//go:build linux

package hosts

import (
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/standin"
)

// StandIn returns small programs that behave on the command line as those of a Kubernetes release do, by name: kubeadm, kubelet
// and kubectl for "v1.36.3", k3s for "v1.36.3+k3s1", rke2 for "v1.36.3+rke2r1". Those of two versions differ.
//
// Programs with effects write to /var/log/stand-in-NAME.log: time, version, "begin", then "done" or "failed", and their
// arguments. Files in the host tell them how to behave: /etc/stand-in/NAME.fail holds the message with which they fail, NAME.slow
// how long they take (such as 2s), and while NAME.hang is there they have begun and wait.
//
// kubelet, k3s and rke2 run until they are killed, and write their version to /run/stand-in-NAME. kubeadm upgrade writes
// /var/lib/kubelet/config.yaml and, on a control plane, the image tags of the static pods. /etc/stand-in/cluster-version is the version in the
// ConfigMap kubeadm-config, as kubectl reads it and kubeadm upgrade apply writes it. kubectl also
// answers for the static pods whose manifests are in the host. While /etc/stand-in/pods.old is there
// they are those from before the kubelet was restarted, and while api.down is there nothing answers.
// pods.more holds further pods, which the kubelet lists before them.
func StandIn(version string) (map[string][]byte, error) {
	program, err := multiCall()
	if err != nil {
		return nil, err
	}
	names := []string{"kubeadm", "kubelet", "kubectl"}
	switch {
	case strings.Contains(version, "+k3s"):
		names = []string{"k3s"}
	case strings.Contains(version, "+rke2"):
		names = []string{"rke2"}
	}
	result := map[string][]byte{}
	for _, name := range names {
		if result[name], err = standin.Append(program.bytes, standin.Trailer{Name: name, Version: version}); err != nil {
			return nil, err
		}
	}
	return result, nil
}
