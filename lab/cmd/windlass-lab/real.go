package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// realLab is a management cluster whose machines are hosts, before and after its start.
type realLab struct {
	*labOptions
	scenario demo.Scenario
	programs setup.HostPrograms
}

// hostsFolder is the folder of the programs that the hosts of a state directory run. It is not in
// the state directory, because users of hosts that are not root read it.
func hostsFolder(stateDir string) (string, error) {
	path, err := filepath.Abs(stateDir)
	if err != nil {
		return "", fmt.Errorf("finding the state directory: %w", err)
	}
	digest := sha256.Sum256([]byte(path))
	return fmt.Sprintf("/var/tmp/windlass-lab-%x", digest[:6]), nil
}

// kubeconfigName is the real cluster's kubeconfig in its folder.
const kubeconfigName = "kubeconfig"

// workloadFolder is the folder in a state directory for the kubeconfig of the real cluster and the
// client's journal.
func workloadFolder(stateDir string) string { return filepath.Join(stateDir, "workload") }

// removeReal removes what belongs to a real cluster of a state directory, apart from the plane. The
// plane must not run.
func removeReal(stateDir string) error {
	hosts, err := hostsFolder(stateDir)
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.RemoveAll(hosts), os.RemoveAll(workloadFolder(stateDir)), setup.RemoveSiteSocket(stateDir),
	); err != nil {
		return fmt.Errorf("removing the files of the real cluster: %w", err)
	}
	return nil
}

// startReal builds what a scenario needs, and starts a plane with hosts. No other command with this
// state directory removes anything meanwhile.
func (o *labOptions) startReal(
	ctx context.Context, config devplane.Config, s demo.Scenario, progress *progress,
) (*devplane.Plane, realLab, error) {
	unlock, err := lockFolder(o.stateDir, busyState)
	if err != nil {
		return nil, realLab{}, err
	}
	defer unlock()
	lab, err := o.buildReal(ctx, s, progress)
	if err != nil {
		return nil, lab, err
	}
	if err := buildPlane(ctx, o, progress); err != nil {
		return nil, lab, err
	}
	// There is no simulated infrastructure, and no network of the plane's own: its managers connect
	// to the hosts.
	config.Isolation = devplane.IsolationNone
	config.Without = append(config.Without, devplane.InMemoryManager)
	config.Progress = progress.report
	plane, err := devplane.Start(ctx, config)
	return plane, lab, err
}

// buildReal builds what hosts run: the versions of the scenario's plan, the target last.
func (o *labOptions) buildReal(
	ctx context.Context, s demo.Scenario, progress *progress,
) (realLab, error) {
	lab := realLab{labOptions: o, scenario: s}
	if err := checkHosts(ctx); err != nil {
		return lab, err
	}
	if _, err := devplane.Connect(ctx, o.stateDir); err == nil {
		return lab, fmt.Errorf(
			`a cluster is running already; "windlass-lab down --state-dir %s" stops it`, o.stateDir,
		)
	}
	if o.source == "" {
		return lab, errors.New(
			"there is no clone of the repository here to build from. Fix: name one with --source",
		)
	}
	paths, err := o.programs()
	if err != nil {
		return lab, err
	}
	runtime := filepath.Join(filepath.Dir(paths.Lab), programs.Runtime)
	if _, err := os.Stat(runtime); err != nil {
		return lab, fmt.Errorf(
			"the program %s is missing: %w. Fix: run \"make build\"", programs.Runtime, err,
		)
	}
	request, err := s.Request()
	if err != nil {
		return lab, err
	}
	planned, err := plan.Compute(request)
	if err != nil {
		return lab, err
	}
	versions := append([]version.Version{request.Inventory.ControlPlane}, planned.ControlPlane...)
	folder, err := hostsFolder(o.stateDir)
	if err != nil {
		return lab, err
	}
	// A crashed plane may have left older programs.
	if err := removeReal(o.stateDir); err != nil {
		return lab, err
	}
	began := time.Now()
	report := func(v version.Version) {
		what := "building Kubernetes " + v.String()
		progress.report(devplane.Event{Step: what, Message: what, Elapsed: time.Since(began)})
	}
	lab.programs, err = setup.BuildHostPrograms(ctx, o.source, folder, runtime, versions, report)
	return lab, err
}

// addHosts runs the infrastructure provider of hosts on a plane.
func (l realLab) addHosts(ctx context.Context, plane *devplane.Plane) (demo.HostOptions, error) {
	paths, err := l.labOptions.programs()
	if err != nil {
		return demo.HostOptions{}, err
	}
	folder := workloadFolder(l.stateDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return demo.HostOptions{}, fmt.Errorf("making the folder of the real cluster: %w", err)
	}
	hosts, err := setup.AddHostProvider(
		ctx, plane, l.stateDir, paths.Lab, l.programs.Arguments()...,
	)
	target := l.programs.Releases[len(l.programs.Releases)-1]
	return demo.HostOptions{
		Site: hosts, Mirror: l.programs.Mirror,
		Journal: filepath.Join(folder, "journal.jsonl"), Etcd: target.EtcdVersion(),
	}, err
}

// writeKubeconfig writes the kubeconfig of the scenario's Cluster to its folder, and returns the
// path.
func (l realLab) writeKubeconfig(ctx context.Context, plane *devplane.Plane) (string, error) {
	c, err := setup.Connect(plane)
	if err != nil {
		return "", err
	}
	data, err := demo.Kubeconfig(ctx, c, l.scenario)
	if err != nil {
		return "", err
	}
	path := filepath.Join(workloadFolder(l.stateDir), kubeconfigName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of the cluster: %w", err)
	}
	return path, nil
}

// showKubeconfig writes the kubeconfig of the scenario's Cluster, and prints how to use it.
func (l realLab) showKubeconfig(ctx context.Context, out io.Writer, plane *devplane.Plane) error {
	path, err := l.writeKubeconfig(ctx, plane)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(
		out, "\nThe cluster is still running:\n\n  kubectl --kubeconfig %s get nodes\n", path,
	)
	return err
}

// runUpReal starts a plane with hosts, and creates a real cluster on them.
func runUpReal(cmd *cobra.Command, opts *labOptions, config devplane.Config) error {
	ctx := cmd.Context()
	if plane, err := devplane.Connect(ctx, opts.stateDir); err == nil {
		return reportRunning(cmd, plane, opts.stateDir)
	}
	scenario, err := demo.DefaultReal()
	if err != nil {
		return err
	}
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.close()
	plane, lab, err := opts.startReal(ctx, config, scenario, progress)
	if err != nil {
		return err
	}
	progress.close()
	path, err := lab.create(cmd, plane)
	if err != nil {
		if _, gone := devplane.Connect(context.WithoutCancel(ctx), opts.stateDir); gone != nil {
			return err
		}
		// The management cluster is useful for finding out what is wrong.
		return fmt.Errorf(
			"%w\nThe management cluster is running. To stop it: %s down", err, labCommand(cmd),
		)
	}
	paths, err := opts.programs()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(
		cmd.OutOrStdout(), realUsage, plane.KubeconfigPath(), path, labCommand(cmd),
		scenario.Namespace, scenario.Cluster.Name, scenario.Target, commandName(paths.Windlass),
	)
	return err
}

// realUsageOf tells how to reach the real cluster of a plane that runs; empty if there is none.
func realUsageOf(stateDir string) string {
	path := filepath.Join(workloadFolder(stateDir), kubeconfigName)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return fmt.Sprintf("\nThe real cluster, through its load balancer:\n\n"+
		"  kubectl --kubeconfig %s get nodes\n", path)
}

const realUsage = `
The cluster is up. Its management cluster:

  export KUBECONFIG=%[1]s
  kubectl get clusters,machines -A

The cluster itself, through its load balancer:

  kubectl --kubeconfig %[2]s get nodes

To upgrade it in place:

  %[3]s kubectl -- -n %[4]s patch cluster %[5]s --type=merge -p '{"spec":{"topology":{"version":"%[6]s"}}}'
  %[7]s status %[5]s -n %[4]s -w

  %[3]s status
  %[3]s down
`

// create creates the Cluster, and returns the path of its kubeconfig.
func (l realLab) create(cmd *cobra.Command, plane *devplane.Plane) (string, error) {
	silenceLibraries()
	ctx := cmd.Context()
	paths, err := l.labOptions.programs()
	if err != nil {
		return "", err
	}
	viewer, closeViewer := newDemoViewer(cmd.OutOrStdout())
	defer closeViewer()
	viewer.Phase("Starting the infrastructure provider")
	hosts, err := l.addHosts(ctx, plane)
	if err != nil {
		return "", err
	}
	watched, stopWatching := watchPlane(ctx, plane)
	defer stopWatching()
	if err := demo.Create(watched, demo.Options{
		Plane: plane, Programs: paths, Show: viewer, Now: time.Now, Hosts: hosts,
	}, l.scenario); err != nil {
		return "", err
	}
	return l.writeKubeconfig(ctx, plane)
}
