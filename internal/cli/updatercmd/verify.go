package updatercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/conformance"
)

// The values of --output.
const (
	verifyTable = "table"
	verifyJSON  = "json"
)

// verifyOptions are the flags of `windlass updater verify`.
type verifyOptions struct {
	caFile, fixture string
	allowUpdates    bool
	restartCommand  string
	updateTimeout   time.Duration
	protocol        string
	kube            *management.Flags
	output          string
}

func newVerify() *cobra.Command {
	o := verifyOptions{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:   "verify URL",
		Short: "Test an updater against the rules of the protocol",
		Long: `Verify tests a running updater against the rules of the protocol. Use it before you register an updater.

Exit codes: 0 no point failed; 1 a point failed, or wrong usage.

Each point is a rule, and the report names the document that defines it. Points that change a machine are skipped
without --allow-updates. With it, they update the Machine in updateMachine of the fixture. --restart-command restarts
the updater in the middle of that update: it runs in a shell, and must return.

With --protocol HandOver, --allow-updates reads the marks on the Machine from the management cluster.`,
		Example: `  windlass updater verify https://127.0.0.1:9443 --ca-file ca.crt
  windlass updater verify https://127.0.0.1:9443 --ca-file ca.crt --fixture fixture.yaml --allow-updates \
    --restart-command 'kubectl rollout restart deployment/my-updater'
  windlass updater verify https://127.0.0.1:9443 --ca-file ca.crt --protocol HandOver`,
		Args:              cli.OneArg("URL", ". Fix: give the https URL that the updater listens at, such as https://127.0.0.1:9443, with --ca-file for a CA that this machine does not know"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.caFile, "ca-file", "", "file with the CA that signed the updater's certificate, in PEM (default: the system's CAs)")
	flags.StringVar(&o.fixture, "fixture", "", "file with the requests to send, in YAML or JSON (default: a change of the Kubernetes version)")
	flags.BoolVar(&o.allowUpdates, "allow-updates", false, "also update the Machine of the fixture's updateMachine")
	flags.StringVar(&o.restartCommand, "restart-command", "", "shell command that restarts the updater (default: that point is skipped)")
	flags.DurationVar(&o.updateTimeout, "update-timeout", conformance.DefaultUpdateTimeout, "how long the update may take")
	flags.StringVarP(&o.output, "output", "o", verifyTable, `output format: "table" or "json"`)
	flags.StringVar(&o.protocol, "protocol", string(v1alpha1.RuntimeHooksProtocol), `how the updater is asked: "RuntimeHooks" or "HandOver"`)
	o.kube.AddContextFlags(flags)
	cli.CompleteContext(cmd)
	cli.CompleteValues(cmd, "protocol", string(v1alpha1.RuntimeHooksProtocol), string(v1alpha1.HandOverProtocol))
	cli.CompleteValues(cmd, "output", verifyTable, verifyJSON)
	cli.CompleteNothing(cmd, "restart-command", "update-timeout")
	return cmd
}

// run verifies the updater and prints the report.
func (o *verifyOptions) run(ctx context.Context, url string, out io.Writer) error {
	if o.output != verifyTable && o.output != verifyJSON {
		return fmt.Errorf("--output %q is unknown; use %q or %q", o.output, verifyTable, verifyJSON)
	}
	if o.protocol != string(v1alpha1.RuntimeHooksProtocol) && o.protocol != string(v1alpha1.HandOverProtocol) {
		return fmt.Errorf("--protocol %q is unknown; use %q or %q", o.protocol, v1alpha1.RuntimeHooksProtocol, v1alpha1.HandOverProtocol)
	}
	if o.restartCommand != "" && !o.allowUpdates {
		return errors.New("--restart-command does nothing without --allow-updates; give both")
	}
	options, err := o.battery(url)
	if err != nil {
		return err
	}
	report, err := o.verify(ctx, options)
	if err != nil {
		return err
	}
	if err := printReport(out, o.output, report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if count := report.Count(conformance.Fail); count > 0 {
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: fmt.Errorf("%d of %d points failed", count, len(report.Points))}
	}
	return nil
}

// verify runs the battery of the protocol.
func (o *verifyOptions) verify(ctx context.Context, options conformance.Options) (*conformance.Report, error) {
	switch {
	case o.protocol == string(v1alpha1.RuntimeHooksProtocol):
		return conformance.Run(ctx, options)
	case !o.allowUpdates:
		return conformance.RunHandOver(ctx, options, nil)
	}
	m, _, err := management.Connect(o.kube)
	if err != nil {
		return nil, err
	}
	return conformance.RunHandOver(ctx, options, func(ctx context.Context, name types.NamespacedName) (map[string]string, error) {
		machine := &metav1.PartialObjectMetadata{}
		machine.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
		err := m.Get(ctx, name, machine)
		return machine.Annotations, err
	})
}

// battery turns flags into what the battery needs.
func (o *verifyOptions) battery(url string) (conformance.Options, error) {
	options := conformance.Options{URL: url, AllowUpdates: o.allowUpdates, UpdateTimeout: o.updateTimeout}
	if o.caFile != "" {
		var err error
		if options.CABundle, err = os.ReadFile(o.caFile); err != nil {
			return options, fmt.Errorf("reading the CA: %w", err)
		}
	}
	if o.fixture != "" {
		content, err := os.ReadFile(o.fixture)
		if err != nil {
			return options, fmt.Errorf("reading the fixture: %w", err)
		}
		if options.Fixture, err = conformance.ParseFixture(content); err != nil {
			return options, fmt.Errorf("%s: %w", o.fixture, err)
		}
	}
	if o.restartCommand != "" {
		options.Restart = func(ctx context.Context) error {
			//nolint:gosec // To run what the user asks for is what the flag is for.
			if output, err := exec.CommandContext(ctx, "sh", "-c", o.restartCommand).CombinedOutput(); err != nil {
				return fmt.Errorf("running --restart-command: %w: %s", err, output)
			}
			return nil
		}
	}
	return options, nil
}

func printReport(out io.Writer, format string, report *conformance.Report) error {
	if format == verifyJSON {
		return cli.WriteJSON(out, report)
	}
	for _, point := range report.Points {
		fmt.Fprintf(out, "%-8s %s: %s\n", point.Status, point.ID, point.Title)
		if point.Reason != "" {
			fmt.Fprintf(out, "         %s\n", point.Reason)
		}
		if point.Status == conformance.Fail {
			fmt.Fprintf(out, "         rule: %s\n", point.Source)
		}
	}
	for _, warning := range report.Warnings {
		fmt.Fprintf(out, "\nwarning: %s\n", warning)
	}
	_, err := fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n",
		report.Count(conformance.Pass), report.Count(conformance.Fail), report.Count(conformance.Skipped))
	return err
}
