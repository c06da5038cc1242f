package main

import (
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/windlass-dev/windlass/internal/cli/management"
)

// managementCluster adds what only some commands read.
type managementCluster struct{ management.Cluster }

func connect(kube *genericclioptions.ConfigFlags) (managementCluster, string, error) {
	m, namespace, err := management.Connect(kube)
	return managementCluster{m}, namespace, err
}

func connectUnlessManifests(kube *genericclioptions.ConfigFlags) (managementCluster, string, error) {
	m, namespace, err := management.ConnectUnlessManifests(kube)
	return managementCluster{m}, namespace, err
}
