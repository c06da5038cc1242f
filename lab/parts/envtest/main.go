// Command envtest is the two executables that package sigs.k8s.io/controller-runtime/pkg/envtest
// starts for tests that need a real API server: etcd and kube-apiserver. The name by which it is
// started selects one of them.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		if err := runEtcd(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			os.Exit(1)
		}
	case "kube-apiserver":
		// The server listens on a loopback address only. A host without a default route has no
		// address to advertise; clients of tests do not use this one, which is reserved for
		// documentation. The last flag of a name applies.
		command := app.NewAPIServerCommand()
		command.SetArgs(append(os.Args[1:],
			"--bind-address=127.0.0.1", "--advertise-address=192.0.2.1"))
		os.Exit(cli.Run(command))
	default:
		fmt.Fprintf(os.Stderr, "envtest: the program is called %q. "+
			"Fix: call it etcd or kube-apiserver.\n", name)
		os.Exit(1)
	}
}

// runEtcd runs a single member until SIGTERM or SIGINT. It takes the flags that package envtest
// passes, with etcd's meanings.
func runEtcd(args []string) error {
	cfg := embed.NewConfig()
	cfg.LogLevel = "warn"
	flags := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "data-dir", "", "directory of the data")
	flags.BoolVar(&cfg.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk")
	clients := map[string]*[]url.URL{
		"listen-client-urls":    &cfg.ListenClientUrls,
		"advertise-client-urls": &cfg.AdvertiseClientUrls,
		"listen-peer-urls":      &cfg.ListenPeerUrls,
	}
	for name, into := range clients {
		flags.Func(name, "URL", func(text string) error {
			parsed, err := url.Parse(text)
			if err != nil {
				return fmt.Errorf("parsing --%s: %w", name, err)
			}
			*into = []url.URL{*parsed}
			return nil
		})
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	defer etcd.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-etcd.Err():
		return fmt.Errorf("serving: %w", err)
	}
}
