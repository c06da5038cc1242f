package plancmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/view"
)

const checkLong = `Check validates a GenerateUpgradePlanResponse of a runtime extension, in YAML or JSON, by the rules of Cluster API and
of the Kubernetes version skew policy. Use it to test your own extension. It prints "legal" and the operations, or the
first fault: the item, the rule, and the fix.

Exit codes: 0 the response is legal; 1 a usage or input error; 3 the response is not legal, or has status Failure.

apiVersion and kind are optional. A wrong one, an unknown field and a missing status are errors.`

const checkExample = `  # Is this answer legal for a cluster whose workers are two minors behind?
  windlass plan check response.yaml --from v1.31.2 --to v1.33.0 --workers-from v1.29.0

  # For two groups, from standard input
  curl -s https://extension.example/plan | windlass plan check - --from v1.29.0 --to v1.32.3 \
    --group pool-a=v1.29.0 --group pool-b=v1.28.4`

func newCheck() *cobra.Command {
	o := &planinput.Options{Kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:     "check FILE|-",
		Short:   "Validate a GenerateUpgradePlan response",
		Long:    checkLong,
		Example: checkExample,
		Args:    cli.Reported(cli.OneArg("FILE", ". Fix: name the response's file, or - for standard input")),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, o, func(_ context.Context, in planinput.Input) (planinput.Request, error) {
				r, err := resolveResponse(cmd, args[0], in)
				if err == nil && in.Format == view.Table {
					r.Heading = "legal"
				}
				return r, err
			})
		},
	}
	o.AddInventoryFlags(cmd)
	cmd.Flags().Lookup("to").Usage = "`VERSION` that the upgrade goes to"
	o.AddPlanFlags(cmd)
	return cmd
}

// resolveResponse makes a request whose source is the response in a file.
func resolveResponse(cmd *cobra.Command, path string, in planinput.Input) (planinput.Request, error) {
	r, err := planinput.ResolveFlags(in, "")
	if err != nil {
		return planinput.Request{}, err
	}
	data, err := manifest.ReadFile(path, cmd.InOrStdin())
	if err != nil {
		return planinput.Request{}, err
	}
	name := path
	if path == manifest.Stdin {
		name = "stdin"
	}
	response, err := manifest.DecodeResponse(name, data)
	if err != nil {
		return planinput.Request{}, err
	}
	r.Request.Source, r.Source = response, ""
	r.Prefix = fmt.Sprintf("%s is not legal", name)
	return r, nil
}
