package updatercmd

import (
	"crypto/rand"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	"github.com/windlass-dev/windlass/internal/view"
)

const runLong = `Run upgrades Kubernetes on one Linux host over SSH, with the steps of the updaters of kind Kubeadm, RKE2 and K3s. Use it
for hosts without Cluster API. It needs no management cluster. Upgrade hosts of control planes first, one after another.

Exit codes:
  0  the host is at the version; with --dry-run, no known reason prevents that
  1  wrong usage, a bundle without a required file, or a host or cluster that is unreachable or refuses the login
  3  it was refused, or a step failed; completed steps stay done
  4  it was interrupted, or --timeout has passed; a running step continues on the host

It prints the steps and their states, runs the remaining steps, and prints a line for each change. The host stores all
progress: after a failure, an interruption or a power cut, run the same command again, and it continues. --dry-run ends
after the list of steps, and changes nothing.

Binaries come from exactly one of --binaries-url, --binaries-folder and --bundle. In all of them, and in --digests, a
file is named VERSION/linux/ARCH/NAME, such as v1.36.3/linux/amd64/kubelet. Run installs only files with the digest in
--digests. Pin that manifest with --digests-sha256, or with --digests-signature and --public-key; otherwise it is
trusted unchecked. "windlass updater digests" writes a manifest.

With --kubeconfig, of the cluster of the node, run drains the node before the first disruption, waits until it is Ready
at the version, and makes it schedulable again. It lists the control plane Nodes, and refuses a worker that would have
a newer minor than one of them. With --no-drain it ignores all Nodes: pods stay while the kubelet restarts, and a worker
is compared only with the API server that answers the host.

--known-hosts must contain the host's key. The user must be root, or be allowed to use sudo without a password.

With -o json the steps are one line of JSON, {dryRun, host, node, from, to, steps: [{step, state, what}]}, and each change is one,
{time, elapsedSeconds, step, state, message, output}; the last of them has the state done and no step. A failure is one more line,
{error: {rule, item, message}}. The rule is Refused (3), Unfinished (4), or with 1 what failed of the host, such as HostUnreachable, HostKeyNotTrusted,
HostLoginRefused and HostNotRoot; ServerError for the cluster; or InvalidInput, with the flag as the item.`

const runExample = `  # What would be done?
  windlass updater kubeadm run --host 10.0.0.7 --to v1.36.3 --digests SHA256SUMS \
    --binaries-url 'https://mirror.example/{version}/bin/linux/{arch}/{name}' --kubeconfig prod.kubeconfig --dry-run

  # A host that reaches nothing, behind a bastion: the binaries are sent
  windlass updater rke2 run --host 10.0.0.7 --bastion ops@bastion.example --user ops --to v1.36.3+rke2r1 \
    --bundle rke2.tar --digests SHA256SUMS --kubeconfig prod.kubeconfig

  # A host whose node was drained by other means
  windlass updater k3s run --host edge-1:2222 --to v1.36.3+k3s1 --binaries-folder /srv/k3s --digests SHA256SUMS --no-drain`

// runTools is what a run takes from the world, for tests to replace.
type runTools struct {
	clock cli.Clock
	// attempt makes the name of an attempt, another one each time.
	attempt func() string
	// home is the folder that has .ssh in it.
	home func() (string, error)
	// reach gives the host behind a login. It need not connect.
	reach func(ssh.Options) (port.Host, error)
}

func systemRunTools() runTools {
	return runTools{clock: cli.SystemClock(), attempt: rand.Text, home: os.UserHomeDir, reach: ssh.New}
}

// runOptions are the flags of windlass updater kubeadm|rke2|k3s run.
type runOptions struct {
	distribution linuxhost.Distribution
	tools        runTools

	host, to, folder                                   string
	user, knownHosts, bastion                          string
	identities                                         []string
	url, hostFolder, bundle                            string
	digests, digestsSHA256, digestsSignature, keyOfSig string
	minSerial                                          int64
	allowUnversioned                                   bool
	ignorePreflight                                    []string
	accept                                             cli.AcceptFlag
	patches                                            string
	kubeconfig, context, node                          string
	noDrain, skipSnapshot, dryRun                      bool
	nodeReadyTimeout, timeout                          time.Duration
	output                                             string
	// prefetch limits a run to what leaves the node as it is.
	prefetch bool
}

// newHost is the command that groups what is done with hosts of one distribution.
func newHost(d linuxhost.Distribution, title string, tools runTools) *cobra.Command {
	cmd := &cobra.Command{
		Use:   string(d),
		Short: "Upgrade one Linux host that runs Kubernetes by " + title + ", without Cluster API",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newRun(d, title, tools), newPrefetch(d, title, tools))
	return cmd
}

func newRun(d linuxhost.Distribution, title string, tools runTools) *cobra.Command {
	o := &runOptions{distribution: d, tools: tools}
	cmd := &cobra.Command{
		Use:               "run --host ADDRESS --to VERSION",
		Short:             "Upgrade one host of " + title + " over SSH",
		Long:              runLong,
		Example:           runExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.report(cmd, o.run(cmd)) },
	}
	o.addFlags(cmd)
	return cmd
}

// defaultRunTimeout is how long a run may take unless it is told otherwise.
const defaultRunTimeout = time.Hour

// addFlags adds the flags of run.
func (o *runOptions) addFlags(cmd *cobra.Command) {
	o.addHostFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.skipSnapshot, "skip-etcd-snapshot", false, "do not save etcd before a machine with a member of it is changed")
	if o.distribution == linuxhost.Kubeadm {
		flags.StringVar(&o.patches, "patches", "", "`FOLDER` on the host with patches for kubeadm, or none (default: none, but a host with patches in /etc/kubernetes/patches is refused)")
		cli.CompleteNothing(cmd, "patches")
	}
	flags.DurationVar(&o.nodeReadyTimeout, "node-ready-timeout", linuxhost.DefaultReadyWithin, "how long the node may take to be Ready at the version after the restart")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster that the node is in, to drain and watch it, and to find the oldest API server")
	flags.StringVar(&o.context, "context", "", "`NAME` of the context in --kubeconfig (default: its current one)")
	flags.StringVar(&o.node, "node", "", "`NAME` of the node (default: the one with the host's address)")
	flags.BoolVar(&o.noDrain, "no-drain", false, "neither drain nor watch the node")
	for _, name := range []string{"kubeconfig", "context", "node"} {
		cmd.MarkFlagsMutuallyExclusive("no-drain", name)
	}
	cli.CompleteNothing(cmd, "node", "node-ready-timeout")
	cli.CompleteContext(cmd)
}

// addHostFlags adds the flags that say which host it is, and which binaries it gets.
func (o *runOptions) addHostFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.host, "host", "", "`ADDRESS[:PORT]` of the host's SSH server")
	flags.StringVar(&o.to, "to", "", "`VERSION` to upgrade to, such as v1.36.3")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the steps and what is done already, and change nothing")
	flags.StringVar(&o.user, "user", "root", "`USER` to log in as; one that is not root uses sudo")
	flags.StringArrayVar(&o.identities, "identity", nil, "`FILE` with a private key without a passphrase; may be repeated (default: ~/.ssh/id_ed25519, id_ecdsa and id_rsa, where they are)")
	flags.StringVar(&o.knownHosts, "known-hosts", "", "`FILE` that pins the host's key (default: ~/.ssh/known_hosts)")
	flags.StringVar(&o.bastion, "bastion", "", "`[USER@]HOST[:PORT]` that connections go through; its key is pinned, and its user logs in, as the host's")
	flags.StringVar(&o.url, "binaries-url", "", "`TEMPLATE` of the URL that the host downloads from, with {version}, {arch} and {name}")
	flags.StringVar(&o.hostFolder, "binaries-folder", "", "`FOLDER` on the host that has the binaries")
	flags.StringVar(&o.bundle, "bundle", "", "tar `FILE` on this machine that has the binaries, which are sent to the host")
	flags.StringVar(&o.digests, "digests", "", "`FILE` with the digests that binaries must have, as sha256sum prints them")
	flags.StringVar(&o.digestsSHA256, "digests-sha256", "", "`HEX`, the SHA-256 that --digests must have")
	flags.StringVar(&o.digestsSignature, "digests-signature", "", "`FILE` with the Ed25519 signature of --digests, in base64")
	flags.StringVar(&o.keyOfSig, "public-key", "", "`FILE` with the public key of --digests-signature, in PEM")
	flags.Int64Var(&o.minSerial, "digests-min-serial", 0, "lowest `SERIAL` of signed --digests that counts")
	flags.BoolVar(&o.allowUnversioned, "digests-allow-unversioned", false, "let signed --digests without a serial and an expiry count, too")
	flags.StringVar(&o.folder, "folder", "", "`FOLDER` on the host where its binaries stand (default: "+o.distribution.Folder()+")")
	if o.distribution == linuxhost.Kubeadm {
		flags.StringSliceVar(&o.ignorePreflight, "ignore-preflight-errors", nil, "`CHECKS` of kubeadm whose failure does not count, by kubeadm's names for them")
	}
	flags.DurationVar(&o.timeout, "timeout", defaultRunTimeout, "how long all of it may take; 0 for no limit")
	flags.StringVarP(&o.output, "output", "o", outputText, "`FORMAT` of what is printed: text, json")
	o.accept.Add(cmd, "kubelet/SomeGate, kube-apiserver/--some-flag or cgroup-v2")
	cmd.MarkFlagsMutuallyExclusive("binaries-url", "binaries-folder", "bundle")
	cmd.MarkFlagsMutuallyExclusive("digests-sha256", "digests-signature")
	cmd.MarkFlagsMutuallyExclusive("digests-sha256", "public-key")
	cli.MustRegister(cmd.MarkFlagFilename("bundle", "tar"))
	cli.CompleteValues(cmd, "output", outputText, outputJSON)
	cli.CompleteNothing(cmd, "host", "to", "user", "bastion", "binaries-url", "binaries-folder", "folder",
		"digests-sha256", "digests-min-serial", "timeout")
	cmd.SetFlagErrorFunc(reportRunFlagError)
}

// The values of --output of commands that print lines.
const (
	outputText = "text"
	outputJSON = "json"
)

func checkLineOutput(output string) error {
	if output == outputText || output == outputJSON {
		return nil
	}
	return cli.InputErrorf("--output", "unknown format %q: choose text or json", output)
}

func (o *runOptions) run(cmd *cobra.Command) error {
	request, err := o.parse()
	if err != nil {
		return err
	}
	printer := runPrinter{
		LinePrinter: cli.LinePrinter{Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr(), JSON: o.output == outputJSON},
		width:       cli.NewScreen(cmd).Width,
	}
	printer.NoteAll(request.notes)
	ctx, cancel := o.tools.clock.Limit(cmd.Context(), o.timeout, errRunTimeout)
	defer cancel()
	view, err := request.lookAtCluster(ctx)
	if err != nil {
		return err
	}
	host, err := o.tools.reach(request.login)
	if err != nil {
		return err
	}
	driver := newRunDriver(request, host, view, o.tools, printer)
	defer func() { _ = driver.upgrade.Host.Close() }()
	return driver.run(ctx, o.dryRun)
}

var errRunTimeout = errors.New("--timeout has passed")

// report says what went wrong in the format that was asked for.
func (o *runOptions) report(cmd *cobra.Command, err error) error {
	return reportLines(cmd, o.output == outputJSON, err)
}

// reportLines says what went wrong, as text or as a last line of JSON.
func reportLines(cmd *cobra.Command, json bool, err error) error {
	if err == nil {
		return nil
	}
	err = describeHostError(err)
	coded, ok := errors.AsType[*cli.ExitError](err)
	if !ok {
		coded = &cli.ExitError{Code: cli.ExitFailure, Err: err}
	}
	if !json {
		return coded
	}
	if writeErr := cli.WriteLine(cmd.OutOrStdout(), map[string]runFailureDocument{"error": lineFailureOf(coded)}); writeErr != nil {
		return errors.Join(coded, writeErr)
	}
	coded.Silent = true
	return coded
}

// runFailureDocument is what the last line of JSON says of a failure, a stable interface. Item is the flag or the cluster that it is about, if any.
type runFailureDocument struct {
	Rule    string `json:"rule"`
	Item    string `json:"item,omitempty"`
	Message string `json:"message"`
}

// lineFailureOf says for programs what an error is about.
func lineFailureOf(err *cli.ExitError) runFailureDocument {
	of := cli.FailureOf(err)
	failure := runFailureDocument{Rule: of.Rule, Item: of.Item, Message: of.Message}
	failed, ofHost := errors.AsType[*hostReasonError](err)
	switch {
	case err.Code == cli.ExitUnfinished:
		failure.Rule = cli.RuleUnfinished
	case err.Code == cli.ExitRefused:
		failure.Rule = cli.RuleRefused
	case ofHost:
		failure.Rule, failure.Message = string(failed.reason), failed.err.Error()
	}
	return failure
}

// hostReasonError is a host that was not reached, or let nobody in. It begins with the reason.
type hostReasonError struct {
	reason port.HostReason
	err    error
}

func (e *hostReasonError) Error() string { return string(e.reason) + ": " + e.err.Error() }
func (e *hostReasonError) Unwrap() error { return e.err }

// describeHostError puts the reason first where the host is what fails, in place of what was being done. Other errors it leaves as they are.
func describeHostError(err error) error {
	if _, coded := errors.AsType[*cli.ExitError](err); coded {
		return err
	}
	if failed, ok := errors.AsType[*port.HostError](err); ok {
		return &hostReasonError{reason: failed.Reason, err: failed}
	}
	return err
}

// reportRunFlagError reports a flag that cannot be parsed, in the format that was asked for.
func reportRunFlagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return reportLines(cmd, cli.FindFormat(os.Args[1:]) == view.JSON, cli.DescribeFlagError(cmd, err))
}
