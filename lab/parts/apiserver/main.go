// Command apiserver is the API of a development management cluster in one process: etcd, kube-apiserver, and the two
// controllers of kube-controller-manager that Cluster API cannot do without (garbage collector and namespaces).
//
// It is started by the supervisor in lab/internal/devplane, which makes the certificates and restarts nothing: when a part of it
// fails, the process ends with status 1 and the reason is the last line of its log.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		klog.ErrorS(err, "The API server ended")
		klog.Flush()
		os.Exit(1)
	}
}

// run returns nil after SIGTERM or SIGINT, once etcd has closed its files.
func run(args []string) error {
	opts, err := parseOptions(args)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	// Relative names, so that the path of etcd's socket stays short wherever the data directory lies: the kernel allows 108 bytes.
	if err := os.Chdir(opts.dataDir); err != nil {
		return fmt.Errorf("entering the data directory: %w", err)
	}
	server := app.NewAPIServerCommand()
	ctx := server.Context() // ended by the first SIGTERM or SIGINT

	stopEtcd, etcdFailed, err := startEtcd(ctx)
	if err != nil {
		return err
	}
	defer stopEtcd()

	failed := make(chan error, 2)
	go func() { failed <- runControllers(ctx, opts.kubeconfig) }()
	go func() {
		server.SetArgs(opts.apiServerArgs())
		failed <- server.Execute()
	}()
	for {
		select {
		case err := <-etcdFailed:
			return fmt.Errorf("etcd: %w", err)
		case err := <-failed:
			if err != nil {
				return err
			}
			// The controllers end as soon as ctx does; the server has requests to finish first.
			if ctx.Err() == nil {
				return errors.New("the API server stopped without being asked to")
			}
			return <-failed
		}
	}
}
