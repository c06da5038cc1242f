package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// demoOptions are the flags of demo and of rehearse.
type demoOptions struct {
	lab    *labOptions
	files  []string
	target string
	// versions replace where the ClusterClass takes its upgrade plans from.
	versions []string
	inPlace  bool
	real     bool
	engine   engineFlag
	keep     bool
	timeout  time.Duration
}

func newDemoCommand(lab *labOptions) *cobra.Command {
	o := &demoOptions{lab: lab}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Upgrade a simulated cluster by four minors, and compare it with the plan",
		Long: `Start a management cluster on this machine, with stock Cluster API and in-memory infrastructure. Register Windlass'
extension, create a cluster, plan its upgrade, change spec.topology.version once, and follow what happens. At the end, it compares the
operations that happened with the plan. If they differ, the command fails.

The cluster begins at v1.29, with 3 control plane machines and three MachineDeployments, one of them a minor ahead of the
others. It goes to ` + demo.DefaultTarget().String() + `. With --in-place no machine is replaced: two simulated updaters each change a part of the
machines where they run. Then the demo tries a change that no updater covers, and the deletion of a machine. Both are refused.

With --real the cluster is real: kubeadm makes 3 control plane machines with etcd and two MachineDeployments of Linux hosts on this
machine, at v1.35. The demo upgrades the control plane and one MachineDeployment in place to ` + demo.DefaultRealTarget().String() + `, and replaces the
other one. A client reads and writes meanwhile. At the end, each member of etcd is asked for every write that was acknowledged. This
needs root and Linux.

With --engine windlass, "windlass manager" replaces Cluster API's core manager.`,
		Example: `  windlass-lab demo
  windlass-lab demo --in-place
  windlass-lab demo --real
  windlass-lab demo --engine windlass
  windlass-lab demo --keep   # and look at it afterwards with kubectl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.Flags().BoolVar(&o.inPlace, "in-place", false, "update machines in place instead of replacing them")
	cmd.Flags().BoolVar(&o.real, "real", false, "upgrade a real cluster on Linux hosts of this machine")
	cmd.MarkFlagsMutuallyExclusive("in-place", "real")
	o.addFlags(cmd.Flags(), "version to upgrade to (default: "+
		demo.DefaultTarget().String()+", with --real "+demo.DefaultRealTarget().String()+")")
	return cmd
}

func newRehearseCommand(lab *labOptions) *cobra.Command {
	o := &demoOptions{lab: lab}
	cmd := &cobra.Command{
		Use:   "rehearse -f FILE... --to VERSION",
		Short: "Upgrade your own ClusterClass and Cluster with simulated machines",
		Long: `Do what "windlass-lab demo" does, with your own ClusterClass, its templates and your Cluster. In-memory machines replace
their infrastructure. The command lists what it changes or omits for that.

With --real, Linux hosts on this machine replace the infrastructure, and kubeadm makes real control planes and workers of them, as
"windlass-lab demo --real" does. All machines are replaced. The Cluster must begin at a version that the lab builds.`,
		Example: `  windlass-lab rehearse -f clusterclass.yaml -f cluster.yaml --to v1.33.6
  windlass-lab rehearse -f clusterclass.yaml -f cluster.yaml --to v1.33.6 --versions v1.31.14,v1.32.10,v1.33.6
  windlass-lab rehearse --real -f clusterclass.yaml -f cluster.yaml --to v1.36.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with the ClusterClass, its templates, the Cluster, "+
		`and an UpgradeGraph if the class needs one; "-" for stdin`)
	cmd.Flags().BoolVar(&o.real, "real", false, "use Linux hosts of this machine in place of in-memory machines")
	o.addFlags(cmd.Flags(), "version to upgrade to")
	cmd.Flags().StringSliceVar(&o.versions, "versions", nil, "versions that exist, separated by commas; they replace the version list "+
		"or the extension that the ClusterClass names")
	for _, name := range []string{"filename", "to"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is defined above.
		}
	}
	return cmd
}

func (o *demoOptions) addFlags(fs *pflag.FlagSet, target string) {
	fs.StringVar(&o.target, "to", "", target)
	o.engine.add(fs)
	fs.BoolVar(&o.keep, "keep", false, `leave everything running at the end; "windlass-lab down --state-dir ..." stops it`)
	fs.DurationVar(&o.timeout, "timeout", 60*time.Minute, "how long everything after the build may take")
}

func (o *demoOptions) run(cmd *cobra.Command) error {
	silenceLibraries()
	scenario, err := o.scenario(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if err := checkScenario(scenario); err != nil {
		return err
	}
	defaultState := o.lab.stateDir == ""
	if err := o.lab.complete(); err != nil {
		return err
	}
	if defaultState {
		o.lab.stateDir = filepath.Join(o.lab.source, ".windlass", "demo")
	}
	if err := o.checkVersions(cmd.Context(), scenario); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for _, notice := range scenario.Notices {
		if _, err := fmt.Fprintln(out, "Note: "+notice); err != nil {
			return err
		}
	}
	plane, lab, err := o.startPlane(cmd, scenario)
	if err != nil {
		return err
	}
	return o.finish(cmd, plane, lab, o.upgrade(cmd.Context(), out, plane, lab))
}

// fromFiles reads the scenario from manifests.
func (o *demoOptions) fromFiles(stdin io.Reader, target version.Version) (demo.Scenario, error) {
	objects, err := manifest.ReadObjects(o.files, stdin)
	if err != nil {
		return demo.Scenario{}, err
	}
	if err := demo.CheckVariables(objects); err != nil {
		return demo.Scenario{}, err
	}
	versions, err := version.ParseList(o.versions)
	if err != nil {
		return demo.Scenario{}, fmt.Errorf("reading --versions: %w", err)
	}
	if objects, err = demo.WithVersions(objects, versions); err != nil {
		return demo.Scenario{}, err
	}
	if o.real {
		return demo.FromObjectsOnHosts(objects, target)
	}
	return demo.FromObjects(objects, target)
}

// scenario reads everything that can be wrong with the input before anything is started.
func (o *demoOptions) scenario(stdin io.Reader) (demo.Scenario, error) {
	var target version.Version
	if o.target != "" {
		v, err := version.Parse(o.target)
		if err != nil {
			return demo.Scenario{}, fmt.Errorf("reading --to: %w", err)
		}
		target = v
	}
	if len(o.files) > 0 {
		return o.fromFiles(stdin, target)
	}
	read := demo.Default
	switch {
	case o.inPlace:
		read = demo.DefaultInPlace
	case o.real:
		read = demo.DefaultReal
	}
	scenario, err := read()
	if err != nil {
		return demo.Scenario{}, err
	}
	if !target.IsZero() {
		scenario.Target = target
	}
	return scenario, nil
}

// checkScenario refuses an upgrade that cannot be planned before anything is started for it.
func checkScenario(s demo.Scenario) error {
	request, err := s.Request()
	if err != nil {
		return err
	}
	planned, err := plan.Compute(request)
	if fault, ok := errors.AsType[*plan.Error](err); ok && !fault.Rule.BadInput() {
		return &cli.ExitError{Code: cli.ExitRefused, Err: fmt.Errorf("planning the upgrade: %w", err)}
	}
	if err == nil && len(planned.Operations) == 0 {
		return fmt.Errorf("there is nothing to upgrade: the Cluster starts at %s; choose a newer version with --to", request.Target)
	}
	return err
}

// checkVersions refuses versions that the lab does not build before it builds anything.
func (o *demoOptions) checkVersions(ctx context.Context, s demo.Scenario) error {
	if !o.real || o.lab.source == "" {
		return nil
	}
	request, err := s.Request()
	if err != nil {
		return err
	}
	return setup.CheckVersions(
		ctx, o.lab.source, request.Inventory.ControlPlane, request.Target,
	)
}

// startPlane builds what the scenario needs, and starts the management cluster.
func (o *demoOptions) startPlane(cmd *cobra.Command, scenario demo.Scenario) (*devplane.Plane, realLab, error) {
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.close()
	config := devplane.Config{StateDir: o.lab.stateDir, AssetsDir: o.lab.assetsDir, Detached: o.keep, Progress: progress.report}
	lab := realLab{labOptions: o.lab, scenario: scenario}
	if err := o.engine.configure(&config, o.lab); err != nil {
		return nil, lab, err
	}
	if o.real {
		return o.lab.startReal(cmd.Context(), config, scenario, progress)
	}
	if err := buildPlane(cmd.Context(), o.lab, progress); err != nil {
		return nil, lab, err
	}
	plane, err := devplane.Start(cmd.Context(), config)
	if running := (*devplane.RunningError)(nil); errors.As(err, &running) {
		err = fmt.Errorf(`%w; "windlass-lab down --state-dir %s" stops it`, err, o.lab.stateDir)
	}
	return plane, lab, err
}

// upgrade runs the scenario and reports.
func (o *demoOptions) upgrade(ctx context.Context, out io.Writer, plane *devplane.Plane, lab realLab) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it took longer than --timeout %s", o.timeout))
	defer cancel()
	paths, err := o.lab.programs()
	if err != nil {
		return err
	}
	viewer, closeViewer := newDemoViewer(out)
	defer closeViewer()
	failed, stopWatching := watchPlane(ctx, plane)
	defer stopWatching()
	options := demo.Options{Plane: plane, Programs: paths, Plan: o.plan, Show: viewer, Now: time.Now}
	if o.real {
		viewer.Phase("Starting the infrastructure provider")
		if options.Hosts, err = lab.addHosts(failed, plane); err != nil {
			return err
		}
	}
	result, err := demo.Run(failed, options, lab.scenario)
	closeViewer()
	if err == nil {
		return report(out, result)
	}
	if cause := context.Cause(failed); cause != nil && !errors.Is(err, cause) {
		// A client that is stopped says only that it was; what stopped it is the news.
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	switch {
	case result.Finished:
		err = errors.Join(err, report(out, result))
	case len(result.Planned.Operations) > 0:
		err = errors.Join(err, demo.ReportUnfinished(out, result))
	}
	return err
}

// report writes what an upgrade that ended has shown.
func report(out io.Writer, result demo.Result) error {
	switch {
	case result.Real != nil:
		return demo.ReportReal(out, result)
	case result.InPlace != nil:
		return demo.ReportInPlace(out, result)
	}
	return demo.Report(out, result)
}

// watchPlane returns a context that ends, with the reason, when a part of the plane ends.
func watchPlane(ctx context.Context, plane *devplane.Plane) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		// Wait returns only when something is wrong, or when ctx has ended, which cannot be cancelled twice.
		cancel(plane.Wait(ctx))
	}()
	return ctx, func() { cancel(nil) }
}

// finish stops the plane, or says where it is. Logs stay when something went wrong.
func (o *demoOptions) finish(cmd *cobra.Command, plane *devplane.Plane, lab realLab, err error) error {
	out := cmd.OutOrStdout()
	if o.keep && o.real {
		err = errors.Join(err, lab.showKubeconfig(context.WithoutCancel(cmd.Context()), out, plane))
	}
	if o.keep {
		_, printErr := fmt.Fprintf(out, "\nThe management cluster is still running:\n\n"+
			"  export KUBECONFIG=%s\n  kubectl get clusters,machines -A\n  %s down --state-dir %s\n",
			plane.KubeconfigPath(), ownCommands().Lab, o.lab.stateDir)
		return errors.Join(err, printErr)
	}
	// The command's own context may have ended, by Ctrl-C for instance; stopping has a limit of its own.
	if stopErr := plane.Stop(context.WithoutCancel(cmd.Context())); stopErr != nil {
		return errors.Join(err, stopErr)
	}
	if err == nil {
		return removeAll(o.lab.stateDir)
	}
	if cmd.Context().Err() != nil {
		return errors.Join(errors.New("stopped; nothing is left running"), removeAll(o.lab.stateDir))
	}
	return fmt.Errorf("%w\nThe logs of all parts are in %s", err, filepath.Join(o.lab.stateDir, "logs"))
}

// plan makes the plan of an upgrade by the engine that carries it out.
func (o *demoOptions) plan(ctx context.Context, config *rest.Config, key types.NamespacedName, target version.Version) (plan.Request, error) {
	request, err := planOnPlane(ctx, config, key, target)
	request.Policy.Workers = o.engine.Workers()
	return request, err
}

// planOnPlane makes the same request as "windlass plan CLUSTER --to ...".
func planOnPlane(ctx context.Context, config *rest.Config, key types.NamespacedName, target version.Version) (plan.Request, error) {
	m, err := management.New(config)
	if err != nil {
		return plan.Request{}, err
	}
	objects, err := m.Objects(ctx, key, true)
	if err != nil {
		return plan.Request{}, err
	}
	state, err := snapshot.Take(objects, snapshot.Overrides{})
	if err != nil {
		return plan.Request{}, err
	}
	class, graphs, err := m.Source(ctx, objects.Cluster)
	if err != nil {
		return plan.Request{}, err
	}
	source, _, err := snapshot.Source(objects.Cluster, class, graphs)
	if err != nil {
		return plan.Request{}, err
	}
	return plan.Request{Inventory: state.Inventory, Target: target, Source: source}, nil
}

// newDemoViewer chooses a picture for a terminal and lines for everything else.
func newDemoViewer(out io.Writer) (viewer demo.Viewer, closeViewer func()) {
	started := time.Now()
	since := func() time.Duration { return time.Since(started) }
	file := cli.Terminal(out)
	if file == nil {
		return &demo.Plain{Out: out, Since: since}, func() {}
	}
	size := func() (width, height int) { return cli.TerminalSize(file) }
	screen := demo.NewTerminal(out, since, size, os.Getenv("NO_COLOR") == "")
	ticker := time.NewTicker(time.Second)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				screen.Tick()
			case <-done:
				return
			}
		}
	}()
	closed := false
	return screen, func() {
		if closed {
			return
		}
		closed = true
		ticker.Stop()
		close(done)
		screen.Close()
	}
}
