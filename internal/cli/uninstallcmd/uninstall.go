package uninstallcmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Uninstall --check lists what is left of Windlass in the management cluster. Use it
before you remove Windlass, and afterwards. It changes nothing: docs/how-to/uninstall.md has the
order of the removal.

Exit codes: 0 no errors were found; 1 an error was found, or a usage or input error.

An Error is something that would fail without the extension, or that fails already. A Warning is
something that is left.

  InProgress     updates in place and upgrades that nobody would end, locks of control planes
  Plans          ClusterClasses that leave upgrade plans to Windlass
  Registrations  ExtensionConfigs and the guard; an Error if their Service is gone
  Leftovers      admission policies, ClusterRoles, and the bindings of both, by names that begin
                 with "windlass-"
  Objects        UpdatePolicies, UpgradeGates, Updaters and UpgradeGraphs, lost with the CRDs

With -o json or -o yaml standard output holds one document, {verdict, worst, findings: [{id,
severity, subject, message, fix, unknown}]}; when something cannot be read it is {error: {rule,
item, version, message}}.`

const example = `  # May Windlass be removed?
  windlass uninstall --check

  # Is anything left?
  windlass uninstall --check -o json | jq '.findings'`

// errLeft is why the check fails where it found errors; they are shown already.
var errLeft = errors.New("errors were found")

// options are the flags of windlass uninstall.
type options struct {
	check          bool
	output, prefix string
	kube           *management.Flags
}

// New returns windlass uninstall.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "uninstall --check",
		Short:             "List what is left of Windlass, before and after it is removed",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cobra.NoArgs),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := o.validate()
			if err == nil {
				err = o.run(cmd, format)
			}
			return cli.Report(cmd, format, err)
		},
	}
	cmd.Flags().BoolVar(&o.check, "check", false,
		"list what is left; without it, the command refuses to run")
	cli.AddPrefixFlag(cmd, &o.prefix)
	cli.AddFormatFlag(cmd, &o.output, "the findings", view.ReportFormats())
	cli.AddKubeFlags(cmd, o.kube)
	return cmd
}

// validate returns the format of the report; with an error it is the table.
func (o *options) validate() (view.Format, error) {
	format, err := view.ParseFormat(o.output, view.ReportFormats())
	switch {
	case err != nil:
		return view.Table, cli.WrapInput("--output", err)
	case !o.check:
		return format, cli.InputErrorf("--check",
			"it is missing, and Windlass does not remove itself. "+
				"Fix: set it, or see docs/how-to/uninstall.md for the order of the removal")
	}
	return format, cli.CheckPrefix(o.prefix)
}

func (o *options) run(cmd *cobra.Command, format view.Format) error {
	m, _, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	facts, err := collect(cmd.Context(), m, o.prefix)
	if err != nil {
		return err
	}
	found, verdict := doctor.ExamineRemoval(facts)
	r := view.Removal{Verdict: verdict, Worst: doctor.Worst(found), Findings: found}
	if err := view.WriteRemoval(cmd.OutOrStdout(), format, cli.NewScreen(cmd), r); err != nil {
		return err
	}
	if r.Worst == doctor.Error {
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errLeft}
	}
	return nil
}
