// Command bound completes the CustomResourceDefinitions that controller-gen has written to a
// folder: it bounds the parts of schemas that come from types of apimachinery, which have no
// markers. These are label selectors, conditions and times.
//
//	bound FOLDER
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	// maxTimeLength bounds a time as RFC 3339 writes it, with fractions of a second.
	maxTimeLength = 64
	// maxOperatorLength bounds the operator of a selector. The name of one that is unknown is in messages.
	maxOperatorLength = 32
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bound FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "bound:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no file")
	}
	for _, file := range files {
		err = errors.Join(err, rewrite(file))
	}
	if err != nil {
		return fmt.Errorf("bounding the schemas in %s: %w", folder, err)
	}
	return nil
}

func rewrite(file string) error {
	content, err := os.ReadFile(file) //nolint:gosec // The developer names the folder.
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		bound(version)
	}
	if content, err = yaml.Marshal(crd); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, append([]byte("---\n"), content...), 0o644) //nolint:gosec // Everybody may read it.
}
