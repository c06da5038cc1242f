// Package crd holds the CustomResourceDefinitions of the project, for programs that install them themselves.
package crd

import "embed"

// Files has the manifests in bases, one CustomResourceDefinition a file.
//
//go:embed bases/*.yaml
var Files embed.FS
