package linuxhost

import "time"

// Name names a step. It stands on the host, in reports and in documentation.
type Name string

// The steps.
const (
	// FetchPrefix begins the names of the steps that bring one binary, or one archive of images, to the host, such as fetch-kubelet, and
	// InstallPrefix of those that put it in its place.
	FetchPrefix   = "fetch-"
	InstallPrefix = "install-"

	// PullImages brings the container images that kubeadm needs to the host, or sees where RKE2 will
	// find the one that it needs.
	PullImages Name = "pull-images"
	// InstallImages puts archives of images for RKE2 and K3s in their places.
	InstallImages Name = "install-images"
	// EtcdSnapshot saves etcd, before the first change of a machine with a member of it.
	EtcdSnapshot Name = "etcd-snapshot"
	// Drain cordons the node and evicts its pods.
	Drain Name = "drain"
	// BeforeCommands runs the commands that may be repeated, before kubeadm.
	BeforeCommands Name = "before-commands"
	// WriteFiles writes the files of the bootstrap configuration.
	WriteFiles Name = "write-files"
	// KubeadmRecover undoes what a run of kubeadm that was cut short has done to files. Only hosts on
	// which that happened have the step.
	KubeadmRecover Name = "kubeadm-recover"
	// KubeadmUpgrade runs kubeadm upgrade apply on the first control plane machine, kubeadm upgrade node on all others.
	KubeadmUpgrade Name = "kubeadm-upgrade"
	// KubeletEndpoint has the kubelet of a control plane machine talk to the API server of its own machine.
	KubeletEndpoint Name = "kubelet-endpoint"
	// KubeletArguments sets the kubelet's arguments.
	KubeletArguments Name = "kubelet-arguments"
	// ComponentArgs sets the arguments that RKE2 or K3s gives to components, in a drop-in.
	ComponentArgs Name = "component-arguments"
	// AfterCommands runs the commands that may be repeated, after the binaries and arguments are in place.
	AfterCommands Name = "after-commands"
	// Restart restarts the service that runs the node.
	Restart Name = "restart"
	// PutBack ends a restart after which the service did not stay up. It is part of no plan.
	PutBack Name = "put-back"
	// PutBackAgain is PutBack once more, after a boot or a person started the service in between.
	PutBackAgain Name = "put-back-again"
	// ControlPlaneReady waits until the static pods of a control plane machine are Ready as the
	// restarted kubelet has them: a kubelet of another minor restarts them.
	ControlPlaneReady Name = "control-plane-ready"
	// NodeReady waits until the node is Ready at the version.
	NodeReady Name = "node-ready"
	// Uncordon makes the node schedulable again.
	Uncordon Name = "uncordon"
)

// Step is one thing to do on a host. Each can be repeated, and cut short anywhere.
type Step struct {
	Name Name
	// Summary says what it does, in words for whoever reads a plan.
	Summary string
	// Check is a script that changes nothing and exits with 0 where the step is done. What it prints
	// tells how far it is. It is empty for actions whose state the host does not know.
	Check string
	// Action does it. It is verified by Check.
	Action Action
	// Installs is the binary that the step puts in its place; empty for other steps.
	Installs string
}

// Action is how a step is done: Run, Send, DrainNode, AwaitControlPlane, AwaitNode or UncordonNode.
//
//sumtype:decl
type Action interface{ action() }

// Run runs a script as a job on the host.
type Run struct {
	Script string
	// Limit is how long it may take.
	Limit time.Duration
}

// Send sends a file of the bundle, in parts, to Path on the host. What arrived is the file when its digest is right.
type Send struct {
	// Name is the name in the bundle.
	Name string
	// Part is where parts are appended; Path is what it is renamed to when it is whole.
	Part, Path string
	Digest     Digest
	// Offset is how much of the file has arrived. Decide sets it.
	Offset int64
}

// DrainNode cordons the node and evicts its pods.
type DrainNode struct {
	// Record asks to record first that the node was schedulable. Decide sets it.
	Record bool
}

// AwaitControlPlane waits until the step's check finds that it is done.
type AwaitControlPlane struct{}

// AwaitNode waits for the node to be Ready at the version.
type AwaitNode struct{}

// UncordonNode makes the node schedulable, where it was when the upgrade began.
type UncordonNode struct{}

func (Run) action()               {}
func (Send) action()              {}
func (DrainNode) action()         {}
func (AwaitControlPlane) action() {}
func (AwaitNode) action()         {}
func (UncordonNode) action()      {}

const (
	// commandLimit is how long a step may take that has no reason to take long; fetchLimit for one that downloads a binary, and upgradeLimit for
	// images and for kubeadm, which waits for static pods.
	commandLimit = 5 * time.Minute
	fetchLimit   = 30 * time.Minute
	upgradeLimit = 30 * time.Minute
)
