package internal_test

// rules has one rule per package, in the order of go list.
var rules = []rule{
	{pkg: "api/updates/v1alpha1", kind: pure, imports: ``},
	{pkg: "api/v1alpha1", kind: pure, imports: ``},
	{pkg: "pkg/plan", kind: pure, imports: `pkg/version`},
	{pkg: "pkg/version", kind: pure, imports: ``},
	{pkg: "internal/app", kind: effects, imports: `
		api/updates/v1alpha1 api/v1alpha1 internal/capi internal/contract internal/controllers
		internal/diagnostics internal/eventlimit internal/gate/gatehooks
		internal/guard/guardwebhook internal/hookclient internal/hookserver internal/httplimit
		internal/inplace internal/inplace/engine internal/inplace/request internal/keyed
		internal/lease internal/linuxhost internal/metrics internal/patches internal/policy
		internal/policystore internal/pool internal/pool/machinedeployment internal/pool/machineset
		internal/port internal/recordlimit internal/refusal internal/risks internal/snapshot
		internal/topology internal/transport/pod internal/transport/ssh internal/updaters
		internal/updaters/handover internal/updaters/hosts internal/updaters/k8sd
		internal/updaters/remote internal/workload pkg/plan
	`},
	{pkg: "internal/bounds", kind: effects, imports: `api/v1alpha1 config/crd`},
	{pkg: "internal/capi", kind: pure, imports: `api/v1alpha1 pkg/version`},
	{pkg: "internal/chain", kind: pure, imports: `
		internal/keyed internal/record internal/text pkg/plan pkg/version
	`},
	{pkg: "internal/changereport", kind: pure, imports: `
		api/v1alpha1 internal/chain internal/gate internal/inplace internal/snapshot
		internal/status internal/text pkg/plan pkg/version
	`},
	{pkg: "internal/cli", kind: effects, imports: `
		api/v1alpha1 internal/cli/management internal/inplace/request internal/manifest
		internal/risks internal/text internal/view pkg/plan
	`},
	{pkg: "internal/cli/approvecmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/gate internal/refusal
		internal/snapshot internal/text
	`},
	{pkg: "internal/cli/checkcmd", kind: effects, imports: `
		internal/capi internal/cli internal/cli/management internal/clustercheck
		internal/clustercheck/probe internal/view internal/workload pkg/version
	`},
	{pkg: "internal/cli/doctorcmd", kind: effects, imports: `
		api/v1alpha1 internal/bounds internal/capi internal/cli internal/cli/management
		internal/clustercheck internal/doctor internal/hookserver internal/manifest
		internal/policy internal/snapshot internal/updatepolicy internal/upgradegraph internal/view
	`},
	{pkg: "internal/cli/extensioncmd", kind: effects, imports: `
		api/v1alpha1 internal/app internal/cli internal/cli/serving internal/controllers
		internal/diagnostics internal/guard/guardwebhook internal/hookserver internal/lease
		internal/recordlimit
	`},
	{pkg: "internal/cli/interventioncmd", kind: effects, imports: `
		internal/capi internal/cli internal/cli/management internal/intervention internal/status
		internal/text
	`},
	{pkg: "internal/cli/logscmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/linuxhost internal/snapshot
		internal/status
	`},
	{pkg: "internal/cli/management", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/settings internal/snapshot internal/status
		internal/workload pkg/version
	`},
	{pkg: "internal/cli/managercmd", kind: effects, imports: `
		internal/app internal/cli internal/cli/extensioncmd internal/cli/serving
	`},
	{pkg: "internal/cli/plancmd", kind: effects, imports: `
		internal/cli internal/cli/planinput internal/manifest internal/upgradegraph internal/view
		pkg/plan pkg/version
	`},
	{pkg: "internal/cli/planinput", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/doctor internal/inplace/cover
		internal/inplace/preview internal/manifest internal/port internal/risks internal/settings
		internal/snapshot
		internal/updaters internal/updaters/hosts internal/updaters/k8sd internal/updaters/remote
		internal/upgradegraph internal/view pkg/plan pkg/version
	`},
	{pkg: "internal/cli/preflightcmd", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/cli internal/cli/management internal/clustercheck
		internal/clustercheck/probe internal/doctor internal/gate internal/guard internal/manifest
		internal/policy internal/pool internal/preflight internal/risks internal/settings
		internal/snapshot internal/status internal/untrusted internal/upgradegraph internal/view
		internal/workload pkg/plan pkg/version
	`},
	{pkg: "internal/cli/reportcmd", kind: effects, imports: `
		internal/changereport internal/cli internal/cli/management internal/view
	`},
	{pkg: "internal/cli/serving", kind: effects, imports: `internal/diagnostics internal/hookserver`},
	{pkg: "internal/cli/simulatecmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/cli/planinput internal/manifest
		internal/simulate/fleet internal/simulate/inventory internal/simulate/page
		internal/simulate/scenario internal/simulate/whatif internal/view pkg/plan
	`},
	{pkg: "internal/cli/statuscmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/snapshot
		internal/status internal/view
	`},
	{pkg: "internal/cli/uninstallcmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/doctor internal/hookserver
		internal/view
	`},
	{pkg: "internal/cli/updatercmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/conformance internal/linuxhost
		internal/port internal/text internal/transport/ssh internal/updaters/hosts internal/view
		internal/workload pkg/version
	`},
	{pkg: "internal/cli/upgradecmd", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/cli internal/cli/management internal/contract
		internal/inplace internal/inplace/request internal/snapshot internal/status internal/text
		internal/view pkg/version
	`},
	{pkg: "internal/cli/verifycmd", kind: effects, imports: `
		api/v1alpha1 internal/chain internal/cli internal/cli/planinput internal/inplace/cover
		internal/policy internal/pool internal/simulate/explore internal/simulate/rollouts
		internal/simulate/search internal/snapshot internal/text internal/view pkg/plan pkg/version
	`},
	{pkg: "internal/clustercheck", kind: pure, imports: `internal/capi internal/text pkg/version`},
	{pkg: "internal/clustercheck/probe", kind: effects, imports: `
		internal/clustercheck internal/doctor internal/gate internal/guard internal/preflight
		internal/risks internal/settings internal/text internal/untrusted internal/workload pkg/version
	`},
	{pkg: "internal/condition", kind: pure, imports: `api/v1alpha1 internal/text`},
	{pkg: "internal/conformance", kind: effects, imports: `
		api/updates/v1alpha1 api/v1alpha1 internal/inplace internal/inplace/cover internal/port
		internal/text internal/updaters internal/updaters/handover
	`},
	{pkg: "internal/contract", kind: effects, imports: `internal/capi internal/keyed`},
	{pkg: "internal/controllers", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/condition internal/contract internal/gate internal/guard
		internal/inplace/engine internal/keyed internal/policy internal/policystore
		internal/record internal/refusal internal/snapshot internal/text internal/updatepolicy
		internal/upgradegraph
	`},
	{pkg: "internal/diagnostics", kind: effects, imports: `internal/httplimit internal/loglimit`},
	{pkg: "internal/doctor", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/guard internal/policy internal/pool internal/record
		internal/settings internal/snapshot internal/status internal/text internal/updatepolicy
		pkg/version
	`},
	{pkg: "internal/eventlimit", kind: effects, imports: `internal/text`},
	{pkg: "internal/gate", kind: pure, imports: `
		api/v1alpha1 internal/condition internal/keyed internal/labelselector internal/text
		pkg/version
	`},
	{pkg: "internal/gate/gatehooks", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/gate internal/loglimit internal/shares internal/snapshot
		internal/text
	`},
	{pkg: "internal/guard", kind: pure, imports: `internal/capi`},
	{pkg: "internal/guard/guardwebhook", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/chain internal/contract internal/guard
		internal/loglimit internal/policy internal/policystore internal/pool internal/record
		internal/shares internal/snapshot internal/text internal/untrusted pkg/version
	`},
	{pkg: "internal/hookclient", kind: effects, imports: `
		internal/keyed internal/peer internal/text internal/untrusted
	`},
	{pkg: "internal/hookserver", kind: effects, imports: `
		api/v1alpha1 internal/gate internal/httplimit internal/inplace internal/inplace/cover
		internal/keyed internal/loglimit internal/risks internal/snapshot internal/text
		internal/untrusted internal/upgradegraph pkg/plan pkg/version
	`},
	{pkg: "internal/htmlpage", kind: pure, imports: `internal/text embed`},
	{pkg: "internal/htmlpage/htmlpagetest", kind: effects, imports: ``},
	{pkg: "internal/httplimit", kind: effects, imports: `internal/loglimit`},
	{pkg: "internal/inplace", kind: pure, imports: `
		internal/inplace/cover internal/policy internal/record internal/text pkg/version
	`},
	{pkg: "internal/inplace/cover", kind: pure, imports: `
		api/v1alpha1 internal/pool internal/record internal/text internal/untrusted pkg/version
	`},
	{pkg: "internal/inplace/engine", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/condition internal/contract internal/inplace
		internal/inplace/cover internal/inplace/request internal/keyed internal/metrics
		internal/policy internal/policystore internal/pool internal/port internal/record
		internal/refusal internal/shares internal/snapshot internal/text internal/untrusted
		internal/updatepolicy pkg/plan pkg/version
	`},
	{pkg: "internal/inplace/preview", kind: effects, imports: `
		api/v1alpha1 internal/inplace/cover internal/inplace/engine internal/policy internal/pool
		internal/port internal/snapshot internal/updatepolicy pkg/version
	`},
	{pkg: "internal/inplace/request", kind: pure, imports: `
		api/v1alpha1 internal/inplace internal/policy internal/record internal/text pkg/version
	`},
	{pkg: "internal/intervention", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/inplace internal/pool internal/record internal/status
		internal/text
	`},
	{pkg: "internal/keyed", kind: pure, imports: ``},
	{pkg: "internal/kubeadmpatch", kind: pure, imports: `
		internal/text internal/untrusted
		gopkg.in/evanphx/json-patch.v4 k8s.io/apimachinery/pkg/util/strategicpatch
		k8s.io/apimachinery/pkg/util/yaml
	`},
	{pkg: "internal/labelselector", kind: pure, imports: `api/v1alpha1 internal/text`},
	{pkg: "internal/lease", kind: effects, imports: ``},
	{pkg: "internal/linuxhost", kind: pure, imports: `
		internal/inplace internal/kubeadmpatch internal/port internal/risks internal/settings
		internal/text internal/untrusted pkg/version embed
	`},
	{pkg: "internal/loglimit", kind: effects, imports: `internal/text`},
	{pkg: "internal/manifest", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/doctor internal/settings internal/snapshot internal/text pkg/plan
		pkg/version
	`},
	{pkg: "internal/metrics", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/inplace internal/keyed internal/status
	`},
	{pkg: "internal/patches", kind: effects, imports: `internal/keyed`},
	{pkg: "internal/peer", kind: effects, imports: ``},
	{pkg: "internal/policy", kind: pure, imports: `
		api/v1alpha1 internal/keyed internal/labelselector internal/text
	`},
	{pkg: "internal/policystore", kind: effects, imports: `api/v1alpha1 internal/policy`},
	{pkg: "internal/pool", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/policy internal/record internal/text pkg/version
	`},
	{pkg: "internal/pool/machinedeployment", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/condition internal/inplace/cover internal/keyed
		internal/policy internal/pool internal/pool/objects internal/record internal/refusal
		internal/text
	`},
	{pkg: "internal/pool/machineset", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/condition internal/contract internal/eventlimit
		internal/keyed internal/policy internal/pool internal/pool/objects internal/record
		internal/refusal
	`},
	{pkg: "internal/pool/objects", kind: effects, imports: `
		api/v1alpha1 internal/contract internal/keyed internal/record internal/untrusted
	`},
	{pkg: "internal/port", kind: pure, imports: `internal/inplace internal/inplace/cover`},
	{pkg: "internal/port/porttest", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/port pkg/version
	`},
	{pkg: "internal/preflight", kind: pure, imports: `
		internal/clustercheck internal/doctor internal/gate internal/guard internal/risks internal/settings
		internal/text pkg/version
		github.com/go-logr/logr
	`},
	{pkg: "internal/record", kind: pure, imports: `
		api/v1alpha1 internal/keyed internal/recordjson internal/untrusted pkg/version
	`},
	{pkg: "internal/recordjson", kind: pure, imports: `internal/untrusted`},
	{pkg: "internal/recordjson/formtest", kind: effects, imports: ``},
	{pkg: "internal/recordlimit", kind: effects, imports: `internal/record`},
	{pkg: "internal/refusal", kind: effects, imports: `internal/keyed internal/record`},
	{pkg: "internal/risks", kind: pure, imports: `
		internal/text internal/untrusted pkg/plan pkg/version embed
	`},
	{pkg: "internal/settings", kind: pure, imports: `internal/text internal/untrusted pkg/version embed`},
	{pkg: "internal/shares", kind: effects, imports: `internal/keyed`},
	{pkg: "internal/simulate/explore", kind: pure, imports: `
		internal/chain internal/simulate/search pkg/plan pkg/version
	`},
	{pkg: "internal/simulate/fleet", kind: pure, imports: `
		internal/chain internal/gate internal/guard internal/inplace internal/policy internal/pool
		pkg/plan pkg/version math/rand/v2
	`},
	{pkg: "internal/simulate/inventory", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/gate internal/inplace internal/inplace/cover
		internal/policy internal/record internal/simulate/fleet internal/simulate/scenario
		internal/snapshot internal/text internal/updatepolicy pkg/plan pkg/version
	`},
	{pkg: "internal/simulate/page", kind: pure, imports: `
		internal/htmlpage internal/simulate/whatif internal/text embed
	`},
	{pkg: "internal/simulate/rollouts", kind: pure, imports: `
		api/v1alpha1 internal/policy internal/pool internal/simulate/search
	`},
	{pkg: "internal/simulate/scenario", kind: pure, imports: `
		api/v1alpha1 internal/gate internal/inplace internal/labelselector internal/policy
		internal/pool internal/simulate/fleet internal/updatepolicy pkg/plan pkg/version
	`},
	{pkg: "internal/simulate/search", kind: pure, imports: ``},
	{pkg: "internal/simulate/whatif", kind: pure, imports: `
		internal/inplace internal/policy internal/simulate/fleet internal/text pkg/version
		golang.org/x/sync/errgroup
	`},
	{pkg: "internal/snapshot", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/chain internal/guard internal/policy
		internal/recordjson internal/risks internal/settings internal/text internal/untrusted
		internal/upgradegraph pkg/plan pkg/version
	`},
	{pkg: "internal/status", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/chain internal/gate internal/inplace
		internal/inplace/cover internal/inplace/request internal/policy internal/pool
		internal/record internal/snapshot
		internal/text internal/untrusted pkg/plan pkg/version
	`},
	{pkg: "internal/text", kind: pure, imports: ``},
	{pkg: "internal/topology", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/chain internal/condition internal/contract
		internal/keyed internal/pool internal/pool/objects internal/record internal/refusal
		internal/snapshot internal/text internal/untrusted pkg/plan pkg/version
	`},
	{pkg: "internal/transport", kind: effects, imports: `internal/port`},
	{pkg: "internal/transport/pod", kind: effects, imports: `
		internal/peer internal/port internal/transport
	`},
	{pkg: "internal/transport/ssh", kind: effects, imports: `
		internal/keyed internal/port internal/transport
	`},
	{pkg: "internal/untrusted", kind: pure, imports: ``},
	{pkg: "internal/updatepolicy", kind: pure, imports: `
		api/v1alpha1 internal/condition internal/guard internal/labelselector internal/linuxhost
		internal/policy internal/text
	`},
	{pkg: "internal/updaters", kind: effects, imports: `
		api/updates/v1alpha1 internal/inplace internal/inplace/cover internal/peer
		internal/untrusted
	`},
	{pkg: "internal/updaters/handover", kind: effects, imports: `
		api/updates/v1alpha1 api/v1alpha1 internal/capi internal/inplace internal/inplace/cover
		internal/keyed internal/port internal/untrusted internal/updaters
	`},
	{pkg: "internal/updaters/hosts", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/inplace/cover internal/inplace/request internal/keyed
		internal/kubeadmpatch internal/linuxhost internal/port internal/settings internal/text
		internal/updaters pkg/version
	`},
	{pkg: "internal/updaters/k8sd", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/inplace/cover internal/inplace/request
		internal/keyed internal/peer internal/port internal/record internal/recordjson
		internal/untrusted internal/updaters pkg/version
	`},
	{pkg: "internal/updaters/k8sd/k8sdtest", kind: effects, imports: ``},
	{pkg: "internal/updaters/remote", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/inplace/cover internal/port internal/updaters
	`},
	{pkg: "internal/updaterserver", kind: effects, imports: `
		internal/hookserver internal/inplace internal/inplace/cover internal/port
	`},
	{pkg: "internal/updaterserver/servertest", kind: effects, imports: `
		internal/conformance internal/hookserver internal/inplace internal/port
		internal/port/porttest internal/updaterserver test/loopback
	`},
	{pkg: "internal/upgradegraph", kind: pure, imports: `
		api/v1alpha1 internal/condition internal/risks internal/text pkg/plan pkg/version
	`},
	{pkg: "internal/view", kind: pure, imports: `
		internal/changereport internal/clustercheck internal/doctor internal/gate internal/htmlpage
		internal/inplace/cover internal/risks internal/status internal/text pkg/plan pkg/version
		embed
	`},
	{pkg: "internal/workload", kind: effects, imports: `
		api/v1alpha1 internal/gate internal/inplace internal/keyed internal/labelselector
		internal/peer internal/port internal/shares internal/text internal/untrusted pkg/version
	`},
}
