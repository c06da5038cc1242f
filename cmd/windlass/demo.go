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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/demo"
	"github.com/windlass-dev/windlass/internal/devplane"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// demoOptions are the flags of windlass demo.
type demoOptions struct {
	dev     devOptions
	files   []string
	target  string
	inPlace bool
	engine  engineFlag
	keep    bool
	timeout time.Duration
}

func newDemoCommand() *cobra.Command {
	o := &demoOptions{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Upgrade a simulated cluster by several minors and compare plan and reality",
		Long: `Start a management cluster on this machine, with stock Cluster API and in-memory infrastructure, register the plan
extension, create a cluster, plan its upgrade, change spec.topology.version once, and follow what happens. At the end the
operations that really happened stand beside the plan; where they differ, the command fails.

Without -f it is a cluster at v1.29 with 3 control plane machines and three MachineDeployments, one of them a minor ahead
of the others, which goes to ` + demo.DefaultTarget().String() + `. With --in-place no machine is replaced: two simulated updaters
change the machines where they run, each of them a part; a change that neither covers, and the deletion of a machine, are then
seen to be refused. With -f it is your own ClusterClass and Cluster; their infrastructure is
replaced by in-memory machines, and what had to be changed or left out for that is said.

With --engine windlass it is not stock Cluster API whose core manager carries the upgrade out, but "windlass manager" in its place.`,
		Example: `  windlass demo
  windlass demo --in-place
  windlass demo --engine windlass
  windlass demo -f clusterclass.yaml -f cluster.yaml --to v1.33.6
  windlass demo --keep   # and look at it afterwards with kubectl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.dev.source, "source", "", "clone of the windlass repository (default: the one that the working directory is in)")
	fs.StringVar(&o.dev.stateDir, "state-dir", "", "directory for the cluster's state (default: .windlass/demo in the clone)")
	fs.StringVar(&o.dev.assetsDir, "assets-dir", "", "directory for the built binaries and manifests (default: bin/devplane in the clone)")
	fs.StringArrayVarP(&o.files, "filename", "f", nil, `file or folder with the ClusterClass, its templates, the Cluster, and an UpgradeGraph if the class needs one; "-" for stdin`)
	fs.StringVar(&o.target, "to", "", "version to upgrade to (default without -f: "+demo.DefaultTarget().String()+")")
	fs.BoolVar(&o.inPlace, "in-place", false, "update machines in place instead of replacing them")
	o.engine.add(fs)
	fs.BoolVar(&o.keep, "keep", false, `leave everything running at the end; "windlass dev down --state-dir ..." stops it`)
	fs.DurationVar(&o.timeout, "timeout", 60*time.Minute, "how long everything after the build may take")
	cmd.MarkFlagsMutuallyExclusive("in-place", "filename")
	return cmd
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
	defaultState := o.dev.stateDir == ""
	if err := o.dev.complete(); err != nil {
		return err
	}
	if defaultState {
		o.dev.stateDir = filepath.Join(o.dev.source, ".windlass", "demo")
	}
	out := cmd.OutOrStdout()
	for _, notice := range scenario.Notices {
		if _, err := fmt.Fprintln(out, "Note: "+notice); err != nil {
			return err
		}
	}
	plane, err := o.startPlane(cmd)
	if err != nil {
		return err
	}
	return o.finish(cmd, plane, o.upgrade(cmd.Context(), out, plane, scenario))
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
		objects, err := manifest.ReadObjects(o.files, stdin)
		if err != nil {
			return demo.Scenario{}, err
		}
		return demo.FromObjects(objects, target)
	}
	read := demo.Default
	if o.inPlace {
		read = demo.DefaultInPlace
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
		return &exitError{code: exitNoPlan, err: fmt.Errorf("planning the upgrade: %w", err)}
	}
	if err == nil && len(planned.Operations) == 0 {
		return fmt.Errorf("there is nothing to upgrade: the Cluster starts at %s; choose a newer version with --to", request.Target)
	}
	return err
}

func (o *demoOptions) startPlane(cmd *cobra.Command) (*devplane.Plane, error) {
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.close()
	if err := buildPlane(cmd.Context(), &o.dev, progress); err != nil {
		return nil, err
	}
	config := devplane.Config{StateDir: o.dev.stateDir, AssetsDir: o.dev.assetsDir, Detached: o.keep, Progress: progress.report}
	if err := o.engine.configure(&config); err != nil {
		return nil, err
	}
	plane, err := devplane.Start(cmd.Context(), config)
	if running := (*devplane.RunningError)(nil); errors.As(err, &running) {
		return nil, fmt.Errorf(`%w; "windlass dev down --state-dir %s" stops it`, err, o.dev.stateDir)
	}
	return plane, err
}

// upgrade runs the scenario and reports.
func (o *demoOptions) upgrade(ctx context.Context, out io.Writer, plane *devplane.Plane, scenario demo.Scenario) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it took longer than --timeout %s", o.timeout))
	defer cancel()
	executable, err := thisProgram()
	if err != nil {
		return err
	}
	viewer, closeViewer := newDemoViewer(out)
	defer closeViewer()
	failed, stopWatching := watchPlane(ctx, plane)
	defer stopWatching()
	result, err := demo.Run(failed, demo.Options{Plane: plane, Executable: executable, Plan: o.plan, Show: viewer, Now: time.Now}, scenario)
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
	if result.InPlace != nil {
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
func (o *demoOptions) finish(cmd *cobra.Command, plane *devplane.Plane, err error) error {
	out := cmd.OutOrStdout()
	if o.keep {
		_, printErr := fmt.Fprintf(out, "\nThe management cluster is still running:\n\n  export KUBECONFIG=%s\n  kubectl get clusters,machines -A\n  windlass dev down --state-dir %s\n",
			plane.KubeconfigPath(), o.dev.stateDir)
		return errors.Join(err, printErr)
	}
	// The command's own context may have ended, by Ctrl-C for instance; stopping has a limit of its own.
	if stopErr := plane.Stop(context.WithoutCancel(cmd.Context())); stopErr != nil {
		return errors.Join(err, stopErr)
	}
	if err == nil {
		return devplane.RemoveState(o.dev.stateDir)
	}
	if cmd.Context().Err() != nil {
		return errors.Join(errors.New("stopped; nothing is left running"), devplane.RemoveState(o.dev.stateDir))
	}
	return fmt.Errorf("%w\nThe logs of all parts are in %s", err, filepath.Join(o.dev.stateDir, "logs"))
}

// plan makes the plan of an upgrade by the engine that carries it out.
func (o *demoOptions) plan(ctx context.Context, config *rest.Config, key types.NamespacedName, target version.Version) (plan.Request, error) {
	request, err := planOnPlane(ctx, config, key, target)
	request.Policy.Workers = o.engine.Workers()
	return request, err
}

// planOnPlane makes the same request as "windlass plan CLUSTER --to ...".
func planOnPlane(ctx context.Context, config *rest.Config, key types.NamespacedName, target version.Version) (plan.Request, error) {
	m, err := newManagementCluster(config)
	if err != nil {
		return plan.Request{}, err
	}
	objects, err := m.fetchObjects(ctx, key, true)
	if err != nil {
		return plan.Request{}, err
	}
	state, err := snapshot.Take(objects, snapshot.Overrides{})
	if err != nil {
		return plan.Request{}, err
	}
	class, graphs, err := m.fetchSource(ctx, objects.Cluster)
	if err != nil {
		return plan.Request{}, err
	}
	source, _, err := snapshot.Source(class, graphs)
	if err != nil {
		return plan.Request{}, err
	}
	return plan.Request{Inventory: state.Inventory, Target: target, Source: source}, nil
}

// newDemoViewer chooses a picture for a terminal and lines for everything else.
func newDemoViewer(out io.Writer) (viewer demo.Viewer, closeViewer func()) {
	started := time.Now()
	since := func() time.Duration { return time.Since(started) }
	file := terminal(out)
	if file == nil {
		return &demo.Plain{Out: out, Since: since}, func() {}
	}
	size := func() (width, height int) { return terminalSize(file) }
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
