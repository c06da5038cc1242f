package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/lab/internal/journal/recorder"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// HostOptions are what a real cluster needs.
type HostOptions struct {
	// Site has the hosts.
	Site *site.Client
	// Mirror has the binaries of the scenario's target.
	Mirror kube.Mirror
	// Journal is the file for the client's journal.
	Journal string
	// Etcd is the version of etcd that the kubeadm of the scenario's target installs.
	Etcd string
}

// prepareReal registers the updater of hosts, and has it keep all machines but those of replaced
// groups.
func (r *runner) prepareReal(ctx context.Context) error {
	kept := v1alpha1.UpdateTarget{
		ControlPlane: !slices.Contains(r.scenario.Real.Replaced, controlPlaneName),
	}
	for _, md := range r.scenario.Cluster.Spec.Topology.Workers.MachineDeployments {
		if !slices.Contains(r.scenario.Real.Replaced, md.Name) {
			kept.MachineDeployments = append(
				kept.MachineDeployments, v1alpha1.MachineDeploymentName(md.Name),
			)
		}
	}
	if !kept.ControlPlane && len(kept.MachineDeployments) == 0 {
		return nil
	}
	r.Show.Phase("Registering the updater of hosts")
	if err := setup.AddHostUpdater(ctx, r.Plane, r.Hosts.Mirror); err != nil {
		return err
	}
	return setup.KeepHosts(ctx, r.Plane, r.key(), kept)
}

// realRun has a client of the cluster write and read during an upgrade.
type realRun struct {
	*runner
	config   *rest.Config
	workload client.Client
	file     *os.File
	recorder *recorder.Recorder
	result   *RealResult
}

// watchReal notes the machines, and starts the client. The caller calls finish.
func (r *runner) watchReal(ctx context.Context) (*realRun, error) {
	w := &realRun{runner: r, result: &RealResult{Target: r.scenario.Target, Etcd: r.Hosts.Etcd}}
	data, err := Kubeconfig(ctx, r.client, r.scenario)
	if err != nil {
		return nil, err
	}
	if w.config, err = clientcmd.RESTConfigFromKubeConfig(data); err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	if w.workload, err = client.New(w.config, client.Options{}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if w.result.Before, err = w.readMachines(ctx); err != nil {
		return nil, err
	}
	api, err := recorder.NewAPI(ctx, w.config)
	if err != nil {
		return nil, err
	}
	if w.file, err = os.Create(r.Hosts.Journal); err != nil {
		return nil, fmt.Errorf("making the client's journal: %w", err)
	}
	w.recorder = recorder.Start(ctx, recorder.Options{API: api, Journal: w.file})
	return w, nil
}

// Kubeconfig returns the kubeconfig of a scenario's Cluster. Its server is the load balancer.
func Kubeconfig(ctx context.Context, c client.Client, s Scenario) ([]byte, error) {
	data, err := kubeconfig.FromSecret(
		ctx, c, client.ObjectKey{Namespace: s.Namespace, Name: s.Cluster.Name},
	)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of Cluster %s: %w", s.Cluster.Name, err)
	}
	return data, nil
}

// finish stops the client. If the upgrade ended without an error, it reads the journal and asks
// each part of the cluster.
func (w *realRun) finish(ctx context.Context, upgradeErr error) error {
	if err := errors.Join(upgradeErr, w.recorder.Stop(), w.file.Close()); err != nil {
		return err
	}
	data, err := os.ReadFile(w.file.Name())
	if err != nil {
		return fmt.Errorf("reading the client's journal: %w", err)
	}
	if w.result.Attempts, err = journal.Parse(data); err != nil {
		return err
	}
	w.Show.Phase("Asking each machine")
	if w.result.After, err = w.readMachines(ctx); err != nil {
		return err
	}
	w.result.Members, err = w.askMembers(ctx)
	return err
}

// readMachines lists the Machines, those of the control plane first, with their Nodes.
func (w *realRun) readMachines(ctx context.Context) ([]RealMachine, error) {
	nodes := &corev1.NodeList{}
	if err := w.workload.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing the Nodes: %w", err)
	}
	byName := map[string]corev1.Node{}
	for _, node := range nodes.Items {
		byName[node.Name] = node
	}
	machines, err := w.listMachines(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]RealMachine, 0, len(machines))
	for _, m := range machines {
		group := m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
		node := byName[m.Status.NodeRef.Name]
		list = append(list, RealMachine{
			Identity: Identity{Group: group, Name: m.Name, UID: m.UID},
			Kept:     !slices.Contains(w.scenario.Real.Replaced, group),
			Node:     node.UID, Kubelet: w.answer(askKubelet(ctx, ShellOf(w.Hosts.Site, m))),
		})
	}
	return list, nil
}

// listMachines sorts by group and name; the control plane has no group.
func (w *realRun) listMachines(ctx context.Context) ([]clusterv1.Machine, error) {
	machines := &clusterv1.MachineList{}
	if err := w.client.List(ctx, machines, client.InNamespace(w.scenario.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Machines: %w", err)
	}
	slices.SortFunc(machines.Items, func(a, b clusterv1.Machine) int {
		const group = clusterv1.ClusterTopologyMachineDeploymentNameLabel
		return cmp.Or(
			strings.Compare(a.Labels[group], b.Labels[group]), strings.Compare(a.Name, b.Name),
		)
	})
	return machines.Items, nil
}

// askMembers asks the API server and the member of etcd on each control plane machine.
func (w *realRun) askMembers(ctx context.Context) ([]RealMember, error) {
	machines, err := w.listMachines(ctx)
	if err != nil {
		return nil, err
	}
	var members []RealMember
	for _, m := range machines {
		if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; ok {
			members = append(members, w.askMember(ctx, m))
		}
	}
	return members, nil
}

func (w *realRun) askMember(ctx context.Context, m clusterv1.Machine) RealMember {
	return RealMember{
		Member:    recorder.AskMember(ctx, m.Name, ShellOf(w.Hosts.Site, m)),
		APIServer: w.answer(w.askAPIServer(m)),
	}
}

// answer returns the version that something has returned, or that there is none.
func (w *realRun) answer(version string, err error) string {
	if err != nil {
		w.Show.Noted("  " + err.Error())
		return "NO ANSWER"
	}
	return version
}

// askKubelet returns the version of the kubelet that runs on a machine, whatever is installed.
func askKubelet(ctx context.Context, shell recorder.Shell) (string, error) {
	output, err := shell(ctx, `exec -a kubelet "/proc/$(pgrep -xo kubelet)/exe" --version`)
	if err != nil {
		return "", fmt.Errorf("asking the kubelet: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(output), "Kubernetes "), nil
}

// askAPIServer returns the version of the API server on a machine, without the load balancer.
func (w *realRun) askAPIServer(m clusterv1.Machine) (string, error) {
	for _, address := range m.Status.Addresses {
		if address.Type != clusterv1.MachineInternalIP {
			continue
		}
		config := rest.CopyConfig(w.config)
		config.Host = "https://" + net.JoinHostPort(address.Address, fmt.Sprint(site.BalancerPort))
		c, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return "", fmt.Errorf("connecting to the API server of %s: %w", m.Name, err)
		}
		info, err := c.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("asking the API server of %s: %w", m.Name, err)
		}
		return info.GitVersion, nil
	}
	return "", fmt.Errorf("asking the API server of %s: the Machine has no address", m.Name)
}

// ShellOf runs scripts on the host of a Machine.
func ShellOf(hosts *site.Client, m clusterv1.Machine) recorder.Shell {
	return func(ctx context.Context, script string) (string, error) {
		result, err := hosts.Run(ctx, path.Base(m.Spec.ProviderID), script)
		if err != nil {
			return "", fmt.Errorf("asking the host of %s: %w", m.Name, err)
		}
		if result.Code != 0 {
			return "", fmt.Errorf(
				"asking the host of %s: exit status %d: %.300s", m.Name, result.Code, result.Output,
			)
		}
		return result.Output, nil
	}
}
