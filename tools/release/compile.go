package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// goBuild returns a function that compiles cmd/windlass of the sources in root. The result depends on
// the sources and the version of Go alone: not on the folder, the user's flags or a C compiler.
// $GOTOOLCHAIN chooses the version of Go; the notes of a release name it.
func goBuild(root, version string) func(context.Context, platform, string) error {
	return func(ctx context.Context, p platform, target string) error {
		absolute, err := filepath.Abs(target)
		if err != nil {
			return fmt.Errorf("compiling for %s/%s: %w", p.os, p.arch, err)
		}
		//nolint:gosec // the version, which is anything for an image alone, is in one argument that no shell reads
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X main.buildVersion="+version, "-o", absolute, "./cmd/windlass")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
			"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling for %s/%s: %w\n%s", p.os, p.arch, err, out)
		}
		return nil
	}
}
