// Package depstmp holds dependencies.
package depstmp

import (
	_ "github.com/cockroachdb/datadriven"
	_ "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	_ "sigs.k8s.io/cluster-api/controllers/clustercache"
	_ "sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
)
