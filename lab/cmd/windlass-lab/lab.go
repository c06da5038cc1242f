package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// Flags that all commands share.
const (
	flagSource    = "source"
	flagStateDir  = "state-dir"
	flagAssetsDir = "assets-dir"
	flagWindlass  = "windlass"
)

// labOptions are the flags that all commands share.
type labOptions struct {
	source    string
	stateDir  string
	assetsDir string
	windlass  string
}

func (o *labOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.source, flagSource, "", "clone of the windlass repository (default: the one that the working directory is in)")
	fs.StringVar(&o.stateDir, flagStateDir, "", "directory for the cluster's state (default: .windlass/lab in the clone)")
	fs.StringVar(&o.assetsDir, flagAssetsDir, "", "directory for the built binaries and manifests (default: bin/devplane in the clone)")
	fs.StringVar(&o.windlass, flagWindlass, "", "the program windlass to run on the cluster (default: the one beside this program)")
}

// programs returns the paths of windlass and of this program.
func (o *labOptions) programs() (programs.Paths, error) {
	self, err := os.Executable()
	if err != nil {
		return programs.Paths{}, fmt.Errorf("finding this program: %w", err)
	}
	paths := programs.Paths{Windlass: cmp.Or(o.windlass, programs.In(filepath.Dir(self)).Windlass), Lab: self}
	// The supervisor of the cluster has another working directory.
	if paths.Windlass, err = filepath.Abs(paths.Windlass); err != nil {
		return programs.Paths{}, fmt.Errorf("finding the program windlass: %w", err)
	}
	if _, err := os.Stat(paths.Windlass); err != nil {
		return programs.Paths{}, fmt.Errorf("the program windlass is missing: %w. Fix: run \"make build\", or name it with --%s", err, flagWindlass)
	}
	return paths, nil
}

// complete finds the directories that were not given.
func (o *labOptions) complete() error {
	if o.source == "" {
		source, err := devplane.FindSource(".")
		if err != nil && o.stateDir == "" {
			return fmt.Errorf("%w with --source, or the cluster's folder with --state-dir", err)
		}
		o.source = source
	}
	if o.stateDir == "" {
		o.stateDir = filepath.Join(o.source, ".windlass", "lab")
	}
	if info, err := os.Stat(o.stateDir); err == nil && !info.IsDir() {
		return fmt.Errorf("--%s %s is a file. Fix: name a folder", flagStateDir, o.stateDir)
	}
	if o.assetsDir == "" && o.source != "" {
		o.assetsDir = devplane.DefaultOutDir(o.source)
	}
	return nil
}

func newBuildCommand(opts *labOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the parts of the cluster without starting it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.complete(); err != nil {
				return err
			}
			progress := newProgress(cmd.ErrOrStderr())
			defer progress.close()
			return buildPlane(cmd.Context(), opts, progress)
		},
	}
}

// buildPlane builds when there is a clone to build from; without one, what was built elsewhere is used as it is.
func buildPlane(ctx context.Context, opts *labOptions, progress *progress) error {
	if opts.source == "" && opts.assetsDir == "" {
		return errors.New("there is no clone of the repository here to build from: name one with --source, or what was built with --assets-dir")
	}
	if opts.source == "" {
		return nil
	}
	return devplane.Build(ctx, devplane.BuildOptions{SourceDir: opts.source, OutDir: opts.assetsDir, Progress: progress.report})
}

func newUpCommand(opts *labOptions) *cobra.Command {
	var config devplane.Config
	var extension, withHosts bool
	var engine engineFlag
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build and start the cluster",
		Long: `Build what is out of date and start the cluster. It runs until "windlass-lab down".

Every "up" begins with an empty cluster; "up" while it runs changes nothing.

With --real it also creates a workload cluster with real control planes: kubeadm, etcd and API servers run on Linux hosts on this
machine. This needs root and Linux. The first start compiles two minors of Kubernetes.`,
		Example: `  windlass-lab up
  windlass-lab up --real
  export KUBECONFIG=$PWD/.windlass/lab/kubeconfig
  kubectl get clusters -A`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.complete(); err != nil {
				return err
			}
			if engine.Engine == setup.EngineWindlass && slices.Contains(config.Without, devplane.CoreManager) {
				return fmt.Errorf("--without %s leaves out what --engine %s replaces: give one of the two", devplane.CoreManager, engine.Engine)
			}
			config.StateDir, config.AssetsDir, config.Detached = opts.stateDir, opts.assetsDir, true
			if err := engine.configure(&config, opts); err != nil {
				return err
			}
			if withHosts {
				return runUpReal(cmd, opts, config)
			}
			return runUp(cmd, opts, config, extension)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&withHosts, "real", false, "use Linux hosts in place of in-memory infrastructure, and create a real cluster on them")
	fs.BoolVar(&extension, "extension", true, "run the extension in the cluster's network, register it with Cluster API, and its guard with the API server")
	engine.add(fs)
	fs.Uint16Var(&config.Port, "port", 0, "port on 127.0.0.1 for the API server (default: any free one)")
	fs.IntVar(&config.LogLevel, "log-level", 2, "log level of the managers")
	fs.DurationVar(&config.StartTimeout, "timeout", devplane.DefaultStartTimeout, "how long the start may take, once built")
	fs.StringSliceVar(&config.Without, "without", nil, "managers not to start: "+fmt.Sprint(devplane.StockManagers()))
	cmd.MarkFlagsMutuallyExclusive("real", "extension")
	cmd.MarkFlagsMutuallyExclusive("real", "without")
	return cmd
}

func runUp(cmd *cobra.Command, opts *labOptions, config devplane.Config, extension bool) error {
	ctx := cmd.Context()
	if plane, err := devplane.Connect(ctx, opts.stateDir); err == nil {
		return reportRunning(cmd, plane, opts.stateDir)
	}
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.close()
	if err := buildPlane(ctx, opts, progress); err != nil {
		return err
	}
	config.Progress, config.Restart = progress.report, devplane.RestartAlways
	started := time.Now()
	plane, err := devplane.Start(ctx, config)
	if err != nil {
		return err
	}
	if extension && !slices.Contains(config.Without, devplane.CoreManager) {
		progress.report(devplane.Event{Step: "extension", Message: "starting the extension", Elapsed: time.Since(started)})
		if err := registerExtension(ctx, plane, opts); err != nil {
			// The cluster itself is up, and useful for finding out what is wrong.
			return fmt.Errorf("%w\nThe cluster is running without it. To stop it: %s down",
				err, labCommand(cmd))
		}
	}
	progress.close()
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "The cluster is up after %.1f s.\n%s", time.Since(started).Seconds(), usage(plane, cmd))
	return err
}

// connectLab returns the cluster that runs.
func connectLab(cmd *cobra.Command, opts *labOptions) (*devplane.Plane, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	plane, err := devplane.Connect(cmd.Context(), opts.stateDir)
	if none, ok := errors.AsType[*devplane.NotRunningError](err); ok {
		return nil, fmt.Errorf("%w: start one with: windlass-lab up", none)
	}
	return plane, err
}

// reportRunning says how a plane is that another "up" has started.
func reportRunning(cmd *cobra.Command, plane *devplane.Plane, stateDir string) error {
	ctx := cmd.Context()
	status, err := plane.Status(ctx)
	for err == nil && status.Phase == devplane.PhaseStarting {
		status, err = plane.Watch(ctx, status.Revision)
	}
	if err != nil {
		return err
	}
	remedy := engineRemedy(status, labCommand(cmd))
	if status.Phase != devplane.PhaseRunning {
		if remedy == "" {
			remedy = fmt.Sprintf("the cluster is running, but its phase is %s: %s", status.Phase, status.Message)
		}
		return fmt.Errorf("%s\nto stop the cluster, and remove all that is on it: %s down", remedy, labCommand(cmd))
	}
	if remedy != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "The cluster is running already, but %s\n", remedy)
		return err
	}
	already := "The cluster is running already."
	if engine, ok := setup.RunningEngine(status); ok {
		already = fmt.Sprintf(`The cluster is running already, with the engine %s; "%s engine" `+
			`changes that.`, engine, labCommand(cmd))
	}
	_, err = fmt.Fprintf(
		cmd.OutOrStdout(), "%s\n%s%s", already, usage(plane, cmd), realUsageOf(stateDir),
	)
	return err
}

// registerExtension runs windlass' extension on a plane.
func registerExtension(ctx context.Context, plane *devplane.Plane, opts *labOptions) error {
	silenceLibraries()
	paths, err := opts.programs()
	if err != nil {
		return err
	}
	return setup.Register(ctx, plane, paths.Windlass)
}

// silenceLibraries drops what libraries log. Commands report it themselves, or it is in the logs of the parts.
func silenceLibraries() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

// usage tells what to do with a plane that runs, with the flags that it was started with.
func usage(plane *devplane.Plane, cmd *cobra.Command) string {
	dev := labCommand(cmd)
	return fmt.Sprintf(`
  export KUBECONFIG=%s
  kubectl get clusters -A

  %s kubectl -- get clusters -A
  %s status
  %s down
`, plane.KubeconfigPath(), dev, dev, dev)
}

func newDownCommand(opts *labOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.complete(); err != nil {
				return err
			}
			return runDown(cmd.Context(), opts.stateDir, cmd.OutOrStdout())
		},
	}
}

func runDown(ctx context.Context, stateDir string, out io.Writer) error {
	message := "The cluster is stopped and its state is removed."
	plane, err := devplane.Connect(ctx, stateDir)
	var none *devplane.NotRunningError
	switch {
	case errors.As(err, &none) && none.Stale:
		message = "The cluster had crashed; its state is removed."
	case errors.As(err, &none):
		message = "No cluster is running: " + whatIsThere(none.StateDir)
	case err != nil:
		return err
	default:
		if err := plane.Stop(ctx); err != nil {
			return err
		}
	}
	if err := removeAll(stateDir); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, message)
	return err
}

// removeAll removes what a plane that does not run has left.
func removeAll(stateDir string) error {
	if _, err := os.Stat(stateDir); err == nil {
		unlock, err := lockFolder(stateDir, busyState)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return errors.Join(removeReal(stateDir), devplane.RemoveState(stateDir))
}

// whatIsThere tells a path that was mistyped from a cluster that has been stopped.
func whatIsThere(stateDir string) string {
	if _, err := os.Stat(stateDir); errors.Is(err, os.ErrNotExist) {
		return "there is nothing at " + stateDir + "."
	}
	return "none has left its state in " + stateDir + "."
}

func newKubectlCommand(opts *labOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "kubectl -- ARGS...",
		Short:   "Run kubectl, of the cluster's version, against the cluster",
		Example: "  windlass-lab kubectl -- get machines -A",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.complete(); err != nil {
				return err
			}
			plane, err := devplane.Connect(cmd.Context(), opts.stateDir)
			if err != nil {
				return err
			}
			assetsDir := opts.assetsDir
			if !cmd.Flags().Changed(flagAssetsDir) && !cmd.Flags().Changed(flagSource) {
				// Wherever this is called: the cluster knows what it was started from.
				if assetsDir, err = plane.AssetsDir(); err != nil {
					return err
				}
			}
			kubectl := plane.Kubectl(cmd.Context(), assetsDir, args...)
			// In this process's place: kubectl gets the terminal, the signals and the exit code as if called directly.
			err = syscall.Exec(kubectl.Path, kubectl.Args, kubectl.Env) //nolint:gosec // G204: running kubectl with the user's arguments is the point
			if err != nil {
				return fmt.Errorf("running %s: %w", kubectl.Path, err)
			}
			return nil
		},
	}
}

// newSuperviseCommand is for internal/devplane only.
func newSuperviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "supervise STATE-DIR",
		Short:              "Run a cluster's parts (started by up)",
		Hidden:             true,
		Args:               cobra.ExactArgs(1),
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, devplane.ProbeFlag) {
				return devplane.Probe()
			}
			return devplane.Supervise(cmd.Context(), args[0])
		},
	}
}
