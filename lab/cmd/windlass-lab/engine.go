package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// engineFlag is --engine.
type engineFlag struct{ setup.Engine }

func (f *engineFlag) String() string { return string(f.Engine) }
func (f *engineFlag) Type() string   { return "engine" }

// Set reads the name of an engine.
func (f *engineFlag) Set(text string) error {
	engine, err := setup.ParseEngine(text)
	f.Engine = engine
	return err
}

func (f *engineFlag) add(fs *pflag.FlagSet) {
	f.Engine = setup.EngineStock
	fs.Var(f, "engine", `whose core manager runs: "stock" for Cluster API's, "windlass" for windlass' in its place`)
}

// configure has a plane start with the engine.
func (f *engineFlag) configure(config *devplane.Config, opts *labOptions) error {
	paths, err := opts.programs()
	if err != nil {
		return err
	}
	children, err := f.Children(paths.Windlass)
	config.Children = append(config.Children, children...)
	return err
}

func newEngineCommand(opts *labOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "engine [stock|windlass]",
		Short: "Show or change the core manager of the cluster",
		Long: `Show or change the core manager of the cluster: "stock" is Cluster API's, "windlass" is "windlass manager" in its place.

One is stopped, then the other is started. The cluster and what happens on it do not change, so this can be done in the middle of an
upgrade. The extension is another process and keeps running.

A core manager that has ended five times before it was ready is not restarted. Name its engine to start it; it continues from what
the objects record.`,
		Example: `  windlass-lab engine
  windlass-lab engine windlass
  windlass-lab engine stock`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{string(setup.EngineStock), string(setup.EngineWindlass)},
		RunE:      func(cmd *cobra.Command, args []string) error { return runEngine(cmd, opts, args) },
	}
}

func runEngine(cmd *cobra.Command, opts *labOptions, args []string) error {
	var wanted setup.Engine
	if len(args) > 0 {
		engine, err := setup.ParseEngine(args[0])
		if err != nil {
			return err
		}
		wanted = engine
	}
	plane, err := connectLab(cmd, opts)
	if err != nil {
		return err
	}
	status, err := plane.Status(cmd.Context())
	if err != nil {
		return err
	}
	running, ok := setup.RunningEngine(status)
	switch {
	case wanted == "" && !ok:
		none := "No engine is running."
		if remedy := engineRemedy(status, labCommand(cmd)); remedy != "" {
			none += " " + remedy
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), none)
		return err
	case wanted == "":
		_, err = fmt.Fprintln(cmd.OutOrStdout(), running)
		return err
	}
	paths, err := opts.programs()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := setup.SwitchEngine(cmd.Context(), plane, paths.Windlass, wanted); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "The engine %s is running after %.1f s.\n", wanted, time.Since(started).Seconds())
	return err
}

// engineRemedy says which engine has ended where none runs, and what starts it again; empty otherwise. dev is how dev commands are called.
func engineRemedy(status devplane.Status, dev string) string {
	if _, ok := setup.RunningEngine(status); ok {
		return ""
	}
	for _, engine := range []setup.Engine{setup.EngineStock, setup.EngineWindlass} {
		for _, child := range status.Children {
			if child.Name == engine.Child() && child.State == devplane.ChildExited && child.LastExit != nil {
				return fmt.Sprintf("%s has ended: %s (log: %s logs %s)\nto start it again, where it was: %s engine %s",
					child.Name, child.LastExit, dev, child.Name, dev, engine)
			}
		}
	}
	return ""
}
