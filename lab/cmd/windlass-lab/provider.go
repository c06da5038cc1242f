//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/node"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/lab/provider/controllers"
	"github.com/windlass-dev/windlass/lab/provider/site"
	"github.com/windlass-dev/windlass/pkg/version"
)

// siteOptions are the flags of windlass-lab site.
type siteOptions struct{ socket, healthAddress, store, runtime string }

func newSiteCommand() *cobra.Command {
	var o siteOptions
	cmd := &cobra.Command{
		Use: "site", Short: "Run the hosts and load balancers that the host provider rents", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.socket, "socket", "", "path of the socket to listen on")
	cmd.Flags().StringVar(&o.healthAddress, "health-addr", "", "address that answers 200 while the site serves")
	cmd.Flags().StringVar(&o.store, "store", "", "folder with the programs of releases; without one, hosts have none")
	cmd.Flags().StringVar(&o.runtime, "runtime", "", "path of the container runtime's program")
	return cmd
}

func (o *siteOptions) run(ctx context.Context) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := node.AllowWatches(); err != nil {
		return err
	}
	s := site.New(o.node)
	defer func() { err = errors.Join(err, s.Close()) }() //nolint:contextcheck // ctx has ended then
	if err := os.Remove(o.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", o.socket)
	if err != nil {
		return fmt.Errorf("listening for the provider: %w", err)
	}
	health, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.healthAddress)
	if err != nil {
		return errors.Join(fmt.Errorf("listening for health checks: %w", err), listener.Close())
	}
	ended := make(chan error, 2)               //nolint:mnd // one for each server
	go func() { ended <- s.Serve(listener) }() //nolint:contextcheck // what a request begins ends without its client
	go func() {
		ended <- http.Serve(health, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) //nolint:gosec // G114: on loopback
	}()
	select {
	case <-ctx.Done():
		return errors.Join(listener.Close(), health.Close())
	case err := <-ended:
		return err
	}
}

// node returns the options of a host for a release of Kubernetes, or of an empty one where there is no store.
func (o *siteOptions) node(name, release string) (hosts.Options, error) {
	if o.store == "" {
		return hosts.Options{}, nil
	}
	v, err := version.Parse(release)
	if err != nil {
		return hosts.Options{}, fmt.Errorf("reading the Machine's version: %w", err)
	}
	store := kube.Store{Dir: o.store}
	if _, err := os.Stat(store.Program(v, "kubeadm")); err != nil {
		return hosts.Options{}, fmt.Errorf("no programs of %s. Fix: use a version that is in %s: %w", v, o.store, err)
	}
	return node.Options{Name: name, Store: store, Version: v, Runtime: o.runtime}.Host(), nil
}

// providerOptions are the flags of windlass-lab provider.
type providerOptions struct{ site, kubeconfig, healthAddress string }

func newProviderCommand() *cobra.Command {
	var o providerOptions
	cmd := &cobra.Command{
		Use: "provider", Short: "Run the infrastructure provider whose machines are hosts", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.site, "site", "", "path of the site's socket")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster")
	cmd.Flags().StringVar(&o.healthAddress, "health-addr", "", "address of the health checks")
	return cmd
}

func (o *providerOptions) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := controllers.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: o.healthAddress,
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := controllers.SetUp(manager, site.NewClient(o.site)); err != nil {
		return fmt.Errorf("setting up the controllers: %w", err)
	}
	return manager.Start(ctx)
}
