package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// keyVariable is the environment variable with the private key in PEM, for machines that keep no file.
const keyVariable = "WINDLASS_RELEASE_KEY"

const usage = `usage: release all|image|push [flags]
  all    write a release to the output folder
  image  write the image alone, also of a version without release notes
  push   push the image in the output folder to the registry that --image names`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run carries out one command. getenv looks up SOURCE_DATE_EPOCH and keyVariable.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	o := options{log: out}
	flags.StringVar(&o.root, "root", ".", "folder of the sources")
	flags.StringVar(&o.output, "output", "dist", "folder to write to; it is replaced")
	flags.StringVar(&o.version, "version", "", "version of the release, vX.Y.Z")
	flags.StringVar(&o.image, "image", defaultImage, "name of the image, without a tag")
	keyFile := flags.String("key", "", "file with the ECDSA P-256 private key, in PEM (default: $"+keyVariable+")")
	flags.BoolVar(&o.unsigned, "unsigned", false, "write a release without a signature if there is no key")
	if len(args) == 0 {
		return errors.New(usage)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "push" {
		return push(ctx, o)
	}
	var err error
	if o.key, err = loadKey(*keyFile, getenv(keyVariable)); err != nil {
		return err
	}
	if o.commit, o.created, err = source(ctx, o.root, getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	o.changelog = filepath.Join(o.root, "CHANGELOG.md")
	o.compile, o.platforms = goBuild(o.root, o.version), releasePlatforms
	switch args[0] {
	case "all":
		return release(ctx, o)
	case "image":
		_, err := releaseImage(ctx, o)
		return err
	}
	return errors.New(usage)
}

// source returns the commit of a checkout without changes, and its time. epoch, in seconds since
// 1970, replaces the commit's time if it is not empty.
func source(ctx context.Context, root, epoch string) (commit string, created time.Time, err error) {
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return "", time.Time{}, err
	}
	if changed != "" {
		return "", time.Time{}, fmt.Errorf("files differ from the commit, so nobody could repeat this build:\n%s\n"+
			"Fix: commit them, or build in a clean checkout", changed)
	}
	if commit, err = git(ctx, root, "rev-parse", "HEAD"); err != nil {
		return "", time.Time{}, err
	}
	if epoch == "" {
		if epoch, err = git(ctx, root, "log", "-1", "--format=%ct"); err != nil {
			return "", time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds: %w", epoch, err)
	}
	return commit, time.Unix(seconds, 0).UTC(), nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the arguments are constants of this file
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
