package checkcmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/clustercheck/probe"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

const long = `Check tries whether a workload cluster works. Use it after an upgrade, or between two steps of one.

Exit codes: 0 no check failed; 1 a check failed, or a usage or input error.

It connects with the Secret CLUSTER-kubeconfig of the management cluster, and makes these checks:

  APIDiscovery    the API server runs the control plane's version and serves every API group
  Nodes           every Machine has a Node that is Ready, without pressure, at the Machine's version
  Certificates    the certificates of the API server, the kubeconfig and the control plane Machines do not expire soon
  ConfigMapWatch  a watch reports that a ConfigMap is created, changed and deleted
  Deployment      a Deployment becomes available and rolls out a change
  Service         a Pod connects to that Deployment by the DNS name of a Service
  Job             a Job completes

What it creates is in one namespace, windlass-check-ID, has the label windlass.dev/check, and is deleted at the end, also
after an interrupt; if that fails, the check CleanUp says so. On simulated Nodes, which run no containers, Deployment,
Service and Job are reported as not checked. If the API server is not reached, no check but the first is made.

With -o json or -o yaml standard output holds one document, {namespace, cluster, verdict, worst, findings: [{id,
outcome, message, fix}]}; outcome is Passed, Failed or NotChecked. If the Cluster cannot be read it is {error: {rule,
item, version, message}}.`

const example = `  # Does the cluster work after its upgrade?
  windlass check cluster my-cluster -n my-namespace

  # In an air-gapped cluster
  windlass check cluster my-cluster --image registry.example.com/agnhost:2.52

  # Approve the next step of an upgrade only if the cluster works
  windlass check cluster my-cluster && windlass approve my-cluster --gate checked`

// errBroken is why check fails where a check failed; the findings are shown already.
var errBroken = errors.New("a check failed")

const (
	// defaultImage is the image of Kubernetes' own end-to-end tests.
	defaultImage           = "registry.k8s.io/e2e-test-images/agnhost:2.52"
	defaultTimeout         = 3 * time.Minute
	defaultCertificateDays = 14
)

// options are the flags of windlass check cluster.
type options struct {
	output, image   string
	timeout         time.Duration
	certificateDays int
	kube            *management.Flags
}

// New returns windlass check.
func New() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Check whether a cluster works"}
	cmd.AddCommand(newCluster())
	return cmd
}

func newCluster() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "cluster CLUSTER",
		Short:             "Check whether a workload cluster works, for example after an upgrade",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.ClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.kube, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := o.validate()
			if err == nil {
				err = o.run(cmd, format, args[0])
			}
			return cli.Report(cmd, format, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.image, "image", defaultImage, "`IMAGE` of all Pods: agnhost, from a registry that the nodes reach")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long each check may take")
	flags.IntVar(&o.certificateDays, "certificate-days", defaultCertificateDays, "fail if a certificate has fewer than `N` days left")
	cli.CompleteNothing(cmd, "image", "timeout", "certificate-days")
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
	case o.timeout <= 0:
		return format, cli.InputErrorf("--timeout", "it must be longer than 0s")
	case o.certificateDays < 0:
		return format, cli.InputErrorf("--certificate-days", "it must be 0 or more")
	case o.image == "":
		return format, cli.InputErrorf("--image", "it is empty; name an image of agnhost")
	}
	return format, nil
}

func (o *options) run(cmd *cobra.Command, format view.Format, name string) error {
	ctx := cmd.Context()
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	objects, err := m.AllObjects(ctx, key)
	if err != nil {
		return err
	}
	live, err := m.NewClient()
	if err != nil {
		return err
	}
	remote, err := workload.New(live, time.Now).Clientset(ctx, key)
	if err != nil {
		return clustercheck.FixConnect(err)
	}
	var asked version.Version
	if objects.ControlPlane != nil {
		asked = capi.VersionAt(objects.ControlPlane, "spec", "version")
	}
	findings, err := probe.Run(ctx, probe.Options{
		Remote: remote, Version: asked, Machines: objects.Machines, Image: o.image,
		Timeout: o.timeout, CertificateDays: o.certificateDays, ID: rand.String(idLength), Now: time.Now(),
	})
	if err != nil {
		return err
	}
	report := view.ClusterCheck{
		Namespace: namespace, Cluster: name, Verdict: clustercheck.Verdict(findings), Worst: clustercheck.Worst(findings), Findings: findings,
	}
	if err := view.WriteClusterCheck(cmd.OutOrStdout(), format, cli.NewScreen(cmd), report); err != nil {
		return err
	}
	if report.Worst == clustercheck.Failed {
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errBroken}
	}
	return nil
}

// idLength is the length of the random part of the namespace's name.
const idLength = 5
