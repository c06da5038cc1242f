package updatercmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
)

const prefetchLong = `Prefetch brings the binaries and container images of a version to one Linux host ahead of a
maintenance window, and verifies the digests. The node works as before: nothing is installed,
drained or restarted. A later run, or the updater of a Machine, finds them on the host. A host keeps
the binaries of one version: those of another one are removed.

It checks the host as run does before it changes anything, so it also shows what would refuse the
upgrade: more than one minor at once, too little room on a disk, or an unhealthy etcd. The control
plane of a worker may be upgraded later.

Exit codes:
  0  all of it is on the host; with --dry-run, no known reason prevents that
  1  wrong usage, a bundle without a required file, or a host that is unreachable or refuses the login
  3  it was refused, or a binary or an image is unavailable
  4  it was interrupted, or --timeout has passed; a running step continues on the host

Flags and output are those of "windlass updater KIND run".`

// newPrefetch returns the command that prepares a host.
func newPrefetch(d linuxhost.Distribution, title string, tools runTools) *cobra.Command {
	o := &runOptions{
		distribution: d, tools: tools, prefetch: true, noDrain: true, skipSnapshot: true,
		patches: noPatches, nodeReadyTimeout: linuxhost.DefaultReadyWithin,
	}
	cmd := &cobra.Command{
		Use: "prefetch --host ADDRESS --to VERSION",
		Short: "Bring the binaries and images of a version to one host of " + title +
			", ahead of its upgrade",
		Long: prefetchLong,
		Example: `  for host in $(cat hosts); do
    windlass updater ` + string(d) + ` prefetch --host $host --user ops --to v1.36.3 \
      --bundle kubernetes.tar --digests SHA256SUMS
  done`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.report(cmd, o.run(cmd)) },
	}
	o.addHostFlags(cmd)
	return cmd
}

// keepPreparation returns the report, for prefetch with the steps that it carries out. The error says
// why the host cannot be prepared.
func (d *runDriver) keepPreparation(r linuxhost.Report) (linuxhost.Report, error) {
	if !d.upgrade.Prepare {
		return r, nil
	}
	if failure := linuxhost.Unfinished(r.Facts); failure != nil {
		return r, cli.Refusedf("host %s is not prepared: %s", d.address, failure)
	}
	var kept []linuxhost.StepState
	for _, s := range r.Steps {
		if linuxhost.Prepares(s.Step) {
			kept = append(kept, s)
		}
	}
	r.Steps = kept
	return r, nil
}

// prepared says that prefetch is done.
func (d *runDriver) prepared() error {
	message := fmt.Sprintf("host %s has what an upgrade to %s needs; its node works as before",
		d.address, d.upgrade.Goal.Version)
	return d.printer.finished(message, d.clock.Now())
}
