package preflightcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/clustercheck/probe"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

const long = `Preflight looks for what would stop or harm an upgrade of a workload cluster, before it
begins. It changes nothing.

Exit codes: 0 no check failed, and all were made; 1 a check failed or could not be made, or a usage
or input error. Warnings do not count.

It connects with the Secret CLUSTER-kubeconfig of the management cluster, and makes these checks:

  APIDiscovery            the API server runs the control plane's version and serves every API group
  APIServerReady          /readyz of the API server passes
  EtcdHealthy             etcd is healthy: the API server, its Pods, the control plane object
  Nodes                   every Machine has a Node: Ready, without pressure, at its version
  VersionSkew             kubelets may stay beside the next minor of the control plane
  KnownRisks              no step on the way has a known risk; they only warn, unless the UpgradeGraph
                          has spec.knownRisks.action Block. Those that depend on what cannot be seen
                          are named, and do not count
  ControlPlaneCanMove     Cluster API can move the control plane under its UpdatePolicy
  TopologyReconciles      the controller of the topology has no error (a warning)
  UpdateExtensions        each hook of updates in place has at most one extension
  ManagementWebhooks      webhooks of Cluster API in the management cluster have certificates that are
                          valid
  AutoscalerInRollout     no cluster autoscaler acts on machines that are replaced (a warning)
  NewMachinesCanJoin      a machine that a rollout adds finds a Node name and a range of the pod network
  RemovedAPIsRequested    the API server has seen no request for an API that the upgrade removes
  RemovedAPIsManaged      managedFields name no API that the upgrade removes
  RemovedAPIsInManifests  with -f: no object uses an API that the target does not serve
  RemovedSettings         the target has the flags and feature gates that its components are given
  MachineRequirements     the kernels and container runtimes of the Nodes are enough for the target
  StoredVersions          CustomResourceDefinitions store objects in versions that they serve
  WebhookBackends         webhooks with failurePolicy Fail can answer while a Node is drained
  WebhookScope            these webhooks exempt system objects
  BudgetsCanBeSatisfied   no PodDisruptionBudget forbids every eviction
  BudgetsOverlap          no Pod that a drain evicts has two PodDisruptionBudgets
  Certificates            certificates of the cluster and of its webhooks do not expire soon
  NodeLabelsStay          no Pod needs a label that a person has set on Nodes of machines that are replaced
  RoomForDrains           the Pods of a worker Node fit on the others (an estimate)

A check that could not read something is reported as not checked, with the reason. --skip omits a
check, and the verdict names it. --accept omits one finding of RemovedSettings,
MachineRequirements or BudgetsCanBeSatisfied, by the name that its fix has.

Without CLUSTER, with -A, -l or -n, it checks several Clusters, and shows one row for each: first those that need a
person, with what fails. Without --to, the target of each is its spec.topology.version; a Cluster without an upgrade
under way is then not checked. A Cluster that cannot be reached is a row, and counts as failed.

It does not check whether the version exists, or whether a legal chain leads to it: see windlass plan.

With -o json or -o yaml standard output is one document, {namespace, cluster, time, from, to,
verdict, worst, findings: [{id, outcome, subject, message, fix}]}; outcome is Passed, Warned,
NotChecked or Failed. If the Cluster cannot be read it is {error: {rule, item, version, message}}. With -o html it
is a page for a change ticket. For several Clusters it is {asOf, clusters: [{namespace, cluster, from, to, result,
verdict, failed, notChecked, warned, first}]}; result is Unread, Failed, NotChecked, Warned, Passed or Skipped.`

const example = `  # What would stop an upgrade by three minors?
  windlass preflight my-cluster -n my-namespace --to v1.36.1

  # Of all Clusters, which upgrades that are under way would fail? Which could go to v1.36.1?
  windlass preflight -A
  windlass preflight -A -l env=test --to v1.36.1

  # Also look at what is going to be applied afterwards
  windlass preflight my-cluster --to v1.36.1 -f manifests/

  # A page for the change ticket
  windlass preflight my-cluster --to v1.36.1 -o html > preflight.html`

// errFound is why preflight fails where it found something; the findings are shown already.
var errFound = errors.New("a check failed or could not be made")

const (
	defaultTimeout         = time.Minute
	defaultCertificateDays = 30
)

// options are the flags of windlass preflight.
type options struct {
	output, to      string
	files, skip     []string
	fleet           cli.FleetFlags
	accept          cli.AcceptFlag
	timeout         time.Duration
	certificateDays int
	kube            *management.Flags
	riskFlags       cli.RiskFlags
	known           *risks.Set
}

// New returns windlass preflight.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:     "preflight [CLUSTER] --to VERSION",
		Short:   "Find what would stop or harm an upgrade of a workload cluster",
		Long:    long,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && (o.fleet.IsSet() || o.kube.Namespace != "") {
				return nil
			}
			return cli.Reported(cli.ClusterArg)(cmd, args)
		},
		ValidArgsFunction: cli.CompleteCluster(o.kube, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, to, err := o.validate(args)
			switch {
			case err != nil:
			case len(args) == 0:
				err = o.runFleet(cmd, format, to)
			default:
				err = o.run(cmd, format, to, args[0])
			}
			return cli.Report(cmd, format, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.to, "to", "", "`VERSION` that the upgrade goes to, such as v1.36.1")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long each check may take")
	flags.IntVar(&o.certificateDays, "certificate-days", defaultCertificateDays,
		"fail if a certificate has fewer than `N` days left")
	flags.StringArrayVar(&o.skip, "skip", nil,
		"`CHECK` that is not reported and does not count, such as RoomForDrains; may be repeated")
	o.fleet.Add(cmd, "check")
	o.accept.Add(cmd, "kubelet/SomeGate, kube-apiserver/--some-flag, kernel or budget/ns/name")
	cli.CompleteNothing(cmd, "to", "timeout", "certificate-days")
	cli.CompleteValues(cmd, "skip", cli.NamesOf(preflight.IDs())...)
	o.riskFlags.Add(flags, "")
	cli.AddFilesFlag(cmd, &o.files)
	cli.AddFormatFlag(cmd, &o.output, "the findings", view.PreflightFormats())
	cli.AddKubeFlags(cmd, o.kube)
	return cmd
}

// validate returns the format of the report and the target; with an error about the format it is
// the table. The target is zero for several Clusters without --to.
func (o *options) validate(args []string) (view.Format, version.Version, error) {
	format, err := view.ParseFormat(o.output, view.PreflightFormats())
	if err != nil {
		return view.Table, version.Version{}, cli.WrapInput("--output", err)
	}
	if o.known, err = o.riskFlags.Load(); err != nil {
		return format, version.Version{}, err
	}
	if err := o.checkFleet(format, args); err != nil {
		return format, version.Version{}, err
	}
	if o.to == "" && len(args) > 0 {
		return format, version.Version{}, cli.InputErrorf("--to",
			"it is missing. Fix: name the version that the upgrade goes to")
	}
	var to version.Version
	if o.to != "" {
		to, err = version.Parse(o.to)
	}
	switch {
	case err != nil:
		return format, version.Version{}, cli.WrapInput("--to", err)
	case o.timeout <= 0:
		return format, to, cli.InputErrorf("--timeout", "it must be longer than 0s")
	case o.certificateDays < 0:
		return format, to, cli.InputErrorf("--certificate-days", "it must be 0 or more")
	}
	for _, id := range o.skip {
		if !slices.Contains(cli.NamesOf(preflight.IDs()), id) {
			return format, to, cli.InputErrorf("--skip", "there is no check %q: choose one of %q",
				id, preflight.IDs())
		}
	}
	return format, to, nil
}

func (o *options) run(
	cmd *cobra.Command, format view.Format, to version.Version, name string,
) error {
	ctx := cmd.Context()
	manifests, err := readManifests(o.files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	report, err := o.check(ctx, m, key, to, manifests)
	if err != nil {
		return err
	}
	if err := view.WritePreflight(cmd.OutOrStdout(), format, cli.NewScreen(cmd), report); err != nil {
		return err
	}
	if !preflight.Passed(report.Findings) {
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errFound}
	}
	return nil
}

// check makes the checks of one Cluster.
func (o *options) check(
	ctx context.Context, m management.Cluster, key types.NamespacedName, to version.Version,
	manifests []preflight.Manifest,
) (view.Preflight, error) {
	inputs, err := o.prepare(ctx, m, key, to)
	if err != nil {
		return view.Preflight{}, err
	}
	inputs.Manifests = manifests
	findings, err := probe.Preflight(ctx, inputs)
	if err != nil {
		return view.Preflight{}, err
	}
	findings = slices.DeleteFunc(findings, func(f clustercheck.Finding) bool {
		return slices.Contains(o.skip, string(f.ID))
	})
	return view.Preflight{
		Namespace: key.Namespace, Cluster: key.Name, Time: inputs.Now.UTC().Truncate(time.Second),
		From: inputs.Upgrade.From, To: to,
		Verdict: preflight.Verdict(inputs.Upgrade, findings, o.skip),
		Worst:   clustercheck.Worst(findings), Findings: findings,
	}, nil
}

// olderError is a target that the control plane has passed.
type olderError struct{ to, runs version.Version }

func (e *olderError) Error() string {
	return fmt.Sprintf("%s is older than %s, which the control plane runs", e.to, e.runs)
}

// prepare reads the management cluster.
func (o *options) prepare(
	ctx context.Context, m management.Cluster, key types.NamespacedName, to version.Version,
) (probe.PreflightOptions, error) {
	none := probe.PreflightOptions{}
	objects, err := m.AllObjects(ctx, key)
	if err != nil {
		return none, err
	}
	live, err := m.NewClient()
	if err != nil {
		return none, err
	}
	remote, err := workload.New(live, time.Now).Clientset(ctx, key)
	if err != nil {
		return none, clustercheck.FixConnect(err)
	}
	asked, etcd := fromControlPlane(objects)
	from, err := startOf(ctx, asked, remote, o.timeout)
	if err != nil {
		return none, err
	}
	if version.Compare(to, from) == version.Less {
		return none, cli.WrapInput("--to", &olderError{to: to, runs: from})
	}
	policies, err := m.UpdatePolicies(ctx, key.Namespace)
	if err != nil {
		return none, err
	}
	upgrade := preflight.Upgrade{From: from, To: to}
	// Best effort: without the class, nothing is taken for passing.
	class, _ := m.Class(ctx, objects.Cluster)
	read := m.Settings(ctx, objects, class)
	objects.Unverified = read.Unverified
	known, err := o.risksOf(ctx, m, objects, upgrade)
	if err != nil {
		return none, err
	}
	now := time.Now()
	// Best effort: the check UpdateExtensions says if ExtensionConfigs cannot be read.
	around, _ := m.Around(ctx, objects)
	stored, unread := storedCertificates(ctx, m, key)
	scaled := doctor.Facts{Objects: objects, Class: class, Policies: policies}.Scaled()
	if len(scaled) > 0 && doctor.AutoscalersOff(m.Autoscalers(ctx)) {
		scaled = nil
	}
	standing, dangers := rolloutOf(objects, policies, to)
	facts := workload.NewFacts(live, time.Now)
	return probe.PreflightOptions{
		KubeadmProvider: kubeadmProvider(ctx, m, known),
		Remote:          remote, Requested: requested(facts, key), Upgrade: upgrade, Risks: known,
		Version: asked, Machines: objects.Machines, Pools: poolsOf(objects, policies, read),
		Standing:  standing,
		Obstacles: append(dangers, obstaclesOf(objects, around, to, now)...),
		Topology:  topologyOf(objects, around, now), Scaled: scaled,
		Joining:     joiningOf(objects, policies, read),
		Extensions:  extensionsOf(ctx, m, key.Namespace),
		Webhooks:    webhooksOf(ctx, m, now),
		EtcdProblem: etcd, Stored: stored, StoredUnread: unread,
		Settings: preflight.Settings{
			Uses: read.Uses, Accepted: o.accept.Names, Unread: unreadSettings(read),
			ControlPlaneWrites: writesClusterConfiguration(objects),
			Kept:               keptNodes(objects, policies), Unverified: unverifiedNodes(objects),
		},
		Timeout: o.timeout, CertificateDays: o.certificateDays, Now: now,
	}, nil
}
