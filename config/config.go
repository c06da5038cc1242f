// Package config has the manifests with which Windlass is installed.
package config

import "embed"

// Files are the kustomizations that config/default and config/manager consist of.
//
//go:embed crd/kustomization.yaml crd/bases certmanager default extension extensionconfig manager rbac webhook
var Files embed.FS
