package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/cli/serving"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/updaterserver"
	"github.com/windlass-dev/windlass/lab/internal/simulated"
)

// updaterServeOptions are the flags of `windlass-lab updater serve`.
type updaterServeOptions struct {
	serving              serving.Flags
	duration, slowStart  time.Duration
	failureRate          float64
	seed                 uint64
	claims               []string
	stateFile, statsAddr string
	log                  cli.LogOptions
}

func newUpdaterServeCommand() *cobra.Command {
	var o updaterServeOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a simulated updater as a runtime extension",
		Long: `Serve a simulated updater as a runtime extension.

It covers changes of a Machine's Kubernetes version, and makes them by setting the kubelet version that the simulated
node reports in its workload cluster. It refuses real nodes. With --claims it claims to cover other fields, so
that several updaters can each cover a part of a change.

With --stats-addr, GET /stats returns counts, and POST /behaviour makes it misbehave:
  {"updater": {"mode": "Stall"}}   modes are Normal, Hang, Stall, Fail, Lie, WrongAnswer; also duration, slowStart, failureRate
  {"fault": "Error500"}            faults are Hang, Error500, Nonsense, Empty, OldVersion, Redirect; none ends them`,
		Example: `  windlass-lab updater serve --bind-address 127.0.0.1 --port 9444 --cert-dir ./certs --duration 5s`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.serving.Add(cmd)
	flags.DurationVar(&o.duration, "duration", 0, "how long an update takes")
	flags.DurationVar(&o.slowStart, "slow-start", 0, "how long an update that was accepted waits before it starts")
	flags.Float64Var(&o.failureRate, "failure-rate", 0, "part of the updates that fail, from 0 to 1")
	flags.Uint64Var(&o.seed, "seed", 1, "selects which updates fail")
	flags.StringSliceVar(&o.claims, "claims", []string{"machine:/spec/version"}, "fields to cover, as PART:/spec/FIELD with machine, infrastructure or bootstrap as PART")
	flags.StringVar(&o.stateFile, "state", "", "file that keeps what was done over restarts (default: a restart forgets it)")
	flags.StringVar(&o.statsAddr, "stats-addr", "", "loopback address, or unix:PATH, of /stats and /behaviour, for tests (default: none)")
	o.log.AddFlags(flags)
	return cmd
}

// run serves until ctx is cancelled.
func (o *updaterServeOptions) run(ctx context.Context, logs io.Writer) (err error) {
	if err := o.log.Apply(logs); err != nil {
		return err
	}
	if err := o.serving.Check(); err != nil {
		return err
	}
	updater, err := o.newUpdater()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, updater.Close()) }()
	server, err := updaterserver.New(updaterserver.Options{
		Endpoint: hookserver.Endpoint{
			BindAddress: o.serving.BindAddress, Port: o.serving.Port, CertDir: o.serving.CertDir, ClientCAName: o.serving.ClientCAName,
		},
		Updater: updater,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.statsAddr != "" {
		listener, err := updaterserver.ListenLocal(ctx, o.statsAddr)
		if err != nil {
			return fmt.Errorf("--stats-addr: %w", err)
		}
		control := &updaterserver.Control{Server: server, Stats: func() any { return updater.Stats() }, SetBehaviour: updater.SetBehaviour}
		group.Go(func() error { return control.Serve(ctx, listener) })
	}
	group.Go(func() error { return server.Start(ctx) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func (o *updaterServeOptions) newUpdater() (*simulated.Updater, error) {
	var claims []cover.Pointer
	for _, written := range o.claims {
		claim, err := simulated.ParseClaim(written)
		if err != nil {
			return nil, fmt.Errorf("--claims: %w", err)
		}
		claims = append(claims, claim)
	}
	c, err := o.managementClient()
	if err != nil {
		return nil, err
	}
	return simulated.New(simulated.Options{
		Nodes:    simulated.NewInMemory(c),
		NodeName: nodeNameFrom(c),
		Claims:   claims,
		Behaviour: simulated.Behaviour{
			Duration: metav1.Duration{Duration: o.duration}, SlowStart: metav1.Duration{Duration: o.slowStart}, FailureRate: o.failureRate,
		},
		Seed: o.seed, StateFile: o.stateFile,
	})
}

// managementClient returns a client that reads live.
func (o *updaterServeOptions) managementClient() (client.Client, error) {
	restConfig, err := o.serving.RESTConfig()
	if err != nil {
		return nil, err
	}
	serving.Unthrottle(restConfig)
	m, err := management.New(rest.AddUserAgent(restConfig, "windlass-updater"))
	if err != nil {
		return nil, err
	}
	return m.NewClient()
}

// nodeNameFrom looks up which node a Machine is.
func nodeNameFrom(management client.Reader) func(context.Context, types.NamespacedName) (string, error) {
	return func(ctx context.Context, name types.NamespacedName) (string, error) {
		var machine clusterv1.Machine
		if err := management.Get(ctx, name, &machine); err != nil {
			return "", fmt.Errorf("reading Machine %s: %w", name, err)
		}
		return machine.Status.NodeRef.Name, nil
	}
}
