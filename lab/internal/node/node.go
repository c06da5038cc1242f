//go:build linux

// Package node makes a host of tests a machine on which kubeadm creates a real cluster or joins
// one: with a kubelet that runs pods, a container runtime whose containers are processes, and the
// programs of a release.
//
// A pod has the address of its host. The limits of pods and the capacity of a node are not real,
// because containers have no control groups. docs/limits.md names all that is a stand-in.
package node

import (
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Options of a node.
type Options struct {
	// Name of the host, and so of the Node.
	Name string
	// Store has the programs of all releases that the host will run. The host must see it at the
	// same path.
	Store kube.Store
	// Version is the release that is installed at first.
	Version version.Version
	// Runtime is the path of the container runtime's program. The host must see it at the same
	// path.
	Runtime string
}

// diskSize is room for the images' records, etcd, logs, and three copies of a release's programs.
const diskSize = 2 << 30

const (
	runtimeService = "containerd"
	socket         = "/run/containerd/containerd.sock"
	bootScript     = "/usr/local/sbin/node-boot"
)

//go:embed boot.sh
var boot []byte

// The units are those of Kubernetes' packages, and of containerd's as far as kubeadm looks at it.
// PID 1 of hosts knows no order of units, so the kubelet waits for the runtime, which waits for
// what the boot has to do.
const (
	runtimeUnit = `[Unit]
Description=container runtime whose containers are processes
[Service]
Type=notify
ExecStartPre=` + bootScript + `
ExecStart=%s --listen ` + socket + ` --images %s
Restart=always
RestartSec=1
KillMode=process
[Install]
WantedBy=multi-user.target
`
	kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
StartLimitInterval=0
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
`
	kubeadmDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
	podsDropIn = `[Service]
Environment=WINDLASS_KUBELET_PODS=real
ExecStartPre=/bin/bash -c 'until [ -S ` + socket + ` ]; do sleep 0.05; done'
`
)

// Host returns the options of a host that is ready for "kubeadm init" or "kubeadm join". Callers
// may add to them.
func (o Options) Host() hosts.Options {
	links := map[string]string{}
	for _, program := range []string{"kubeadm", "kubelet", "kubectl", "etcdctl", "etcdutl", "crictl"} {
		links["/usr/bin/"+program] = o.Store.Program(o.Version, program)
	}
	const units = "/etc/systemd/system/"
	runtime := fmt.Appendf(nil, runtimeUnit, o.Runtime, o.Store.Images())
	return hosts.Options{
		Name: o.Name, Size: diskSize, Routed: true, Links: links,
		Enable: []string{runtimeService, "kubelet"},
		Files: map[string][]byte{
			bootScript:                                  boot,
			"/etc/crictl.yaml":                          []byte("runtime-endpoint: unix://" + socket + "\n"),
			units + runtimeService + ".service":         runtime,
			units + "kubelet.service":                   []byte(kubeletUnit),
			units + "kubelet.service.d/10-kubeadm.conf": []byte(kubeadmDropIn),
			units + "kubelet.service.d/20-pods.conf":    []byte(podsDropIn),
		},
	}
}

// watchers is how many watches of files there may be on the machine: each kubelet, API server and
// controller manager has some. Linux allows 128, which a dozen nodes use up.
const watchers = 1024

// AllowWatches allows more watches of files on the machine. Nothing undoes it.
func AllowWatches() error {
	const limit = "/proc/sys/fs/inotify/max_user_instances"
	text, err := os.ReadFile(limit)
	if err != nil {
		return fmt.Errorf("reading the limit of watches of files: %w", err)
	}
	if allowed, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && allowed >= watchers {
		return nil
	}
	if err := os.WriteFile(limit, fmt.Appendln(nil, watchers), 0); err != nil {
		return fmt.Errorf("allowing more watches of files: %w", err)
	}
	return nil
}
