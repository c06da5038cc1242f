package setup

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// Ports of the processes that Register and RegisterUpdater run: hooks and admission webhooks, the extension's metrics, and a
// simulated updater's counts and control.
const (
	hooksPort   = "hooks"
	MetricsPort = "metrics"
	StatsPort   = "stats"
)

// SimulatedUpdater is "windlass-lab updater serve", or another updater, as a process of a plane, and its registration.
type SimulatedUpdater struct {
	// Name is the name of the Updater, and with a prefix that of the process.
	Name string
	// Command is the program of an updater of the user's own and its arguments, in which $(PORT_hooks),
	// $(CERT_DIR) and $(KUBECONFIG) are replaced. Dir is its working directory. None means the simulated
	// updater, to which Claims, Duration, FailureRate and StateFile belong.
	Command []string
	Dir     string
	// Protocol is how such an updater is talked to; empty means the default.
	Protocol v1alpha1.UpdaterProtocol
	// Order is its place among other Updaters.
	Order int32
	// Claims are the fields that it covers, such as machine:/spec/version; none means just that one.
	Claims []string
	// Duration is how long an update of a machine takes.
	Duration time.Duration
	// FailureRate is the part of the updates that fail, from 0 to 1.
	FailureRate float64
	// StateFile keeps what was done over restarts; empty means that a restart forgets it.
	StateFile string
	// Selector selects machines by labels; nil means all.
	Selector *metav1.LabelSelector
	// TimeoutSeconds is how long one request may take; 0 means the default.
	TimeoutSeconds int32
	// FailurePolicy is what it means for a decision that it cannot be asked; empty means the default.
	FailurePolicy v1alpha1.UpdaterFailurePolicy
	// Transitions limit which changes of the version it makes.
	Transitions v1alpha1.Transitions
}

// processPrefix begins the names of the updaters' processes.
const processPrefix = "updater-"

// UpdaterProcess is the name of an updater's process on the plane.
func UpdaterProcess(updater string) string { return processPrefix + updater }

// Child describes the process. lab is the path of windlass-lab.
func (u SimulatedUpdater) Child(lab string) devplane.Child {
	child := devplane.Child{
		Name: UpdaterProcess(u.Name), Path: lab, Dir: u.Dir, Ports: []string{hooksPort, StatsPort}, ServingCertificate: true,
		Ready: devplane.Readiness{TCP: "127.0.0.1:$(PORT_" + hooksPort + ")"}, Restart: devplane.RestartAlways,
	}
	if len(u.Command) > 0 {
		child.Path, child.Args, child.Ports = u.Command[0], u.Command[1:], []string{hooksPort}
		return child
	}
	args := []string{
		"updater", "serve", "--kubeconfig", "$(KUBECONFIG)", "--bind-address", "127.0.0.1", "--port", "$(PORT_" + hooksPort + ")",
		"--cert-dir", "$(CERT_DIR)", "--stats-addr", "127.0.0.1:$(PORT_" + StatsPort + ")", "--duration", u.Duration.String(),
	}
	if len(u.Claims) > 0 {
		args = append(args, "--claims", strings.Join(u.Claims, ","))
	}
	if u.FailureRate != 0 {
		args = append(args, "--failure-rate", strconv.FormatFloat(u.FailureRate, 'g', -1, 64))
	}
	if u.StateFile != "" {
		args = append(args, "--state", u.StateFile)
	}
	child.Args = args
	return child
}

// object is the Updater that registers the process at a port. caBundle must have signed its certificate.
func (u SimulatedUpdater) object(port uint16, caBundle []byte) *v1alpha1.Updater {
	return &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: u.Name},
		Spec: v1alpha1.UpdaterSpec{
			Order: u.Order,
			Remote: &v1alpha1.RemoteUpdater{
				URL: fmt.Sprintf("https://127.0.0.1:%d", port), CABundle: caBundle, TimeoutSeconds: u.TimeoutSeconds, FailurePolicy: u.FailurePolicy,
				Protocol: u.Protocol,
			},
			Selector: u.Selector, Transitions: u.Transitions,
		},
	}
}

// RegisterUpdater runs a simulated updater on a plane where the extension runs, and registers it. It returns once the
// extension has found that the updater can be asked.
func RegisterUpdater(ctx context.Context, plane *devplane.Plane, lab string, u SimulatedUpdater) (devplane.ChildStatus, error) {
	child, err := plane.AddChild(ctx, u.Child(lab))
	if err != nil {
		return devplane.ChildStatus{}, fmt.Errorf("starting updater %s: %w", u.Name, err)
	}
	ca, err := plane.CABundle()
	if err != nil {
		return devplane.ChildStatus{}, err
	}
	c, err := Connect(plane)
	if err != nil {
		return devplane.ChildStatus{}, err
	}
	if err := Apply(ctx, c, u.object(child.Ports[hooksPort], ca)); err != nil {
		return devplane.ChildStatus{}, err
	}
	return child, awaitUpdater(ctx, c, u.Name)
}

// awaitUpdater waits until the extension has found that an updater can be asked.
func awaitUpdater(ctx context.Context, c client.WithWatch, name string) error {
	_, err := Await(ctx, c, &v1alpha1.UpdaterList{}, func(u *v1alpha1.Updater) string {
		return NotTrue(u.Status.Conditions, v1alpha1.ReadyCondition)
	}, Named(name))
	return err
}
