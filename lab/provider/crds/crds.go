// Package crds holds the CustomResourceDefinitions of the lab's infrastructure provider.
package crds

import "embed"

// Files has one CustomResourceDefinition a file.
//
//go:embed *.yaml
var Files embed.FS
