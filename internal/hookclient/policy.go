package hookclient

import (
	"errors"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// The failure policy Ignore puts the default answer, Success and nothing else, in the place of one that did not come. That is
// what a person wants of a hook that asks whether to go on. Where the answer is what happens to objects, it would be invented: no
// patches (GeneratePatches) would roll out machines without them, no plan is not a plan (GenerateUpgradePlan), no
// variables (DiscoverVariables) would make every Cluster that sets one invalid, an update that nobody was asked to do would be done
// (UpdateMachine), and one that nobody was asked about would replace the machine (CanUpdateMachine, CanUpdateMachineSet). For these, and for
// hooks that are not known here, Ignore is Fail.
var ignorable = map[runtimecatalog.GroupHook]bool{
	lifecycle("BeforeClusterCreate"):          true,
	lifecycle("AfterControlPlaneInitialized"): true,
	lifecycle("BeforeClusterUpgrade"):         true,
	lifecycle("BeforeControlPlaneUpgrade"):    true,
	lifecycle("AfterControlPlaneUpgrade"):     true,
	lifecycle("BeforeWorkersUpgrade"):         true,
	lifecycle("AfterWorkersUpgrade"):          true,
	lifecycle("AfterClusterUpgrade"):          true,
	lifecycle("BeforeClusterDelete"):          true,
	// It answers only whether what was computed is acceptable, as an admission webhook does.
	lifecycle("ValidateTopology"): true,
}

func lifecycle(hook string) runtimecatalog.GroupHook {
	return runtimecatalog.GroupHook{Group: runtimehooksv1.GroupVersion.Group, Hook: hook}
}

// computePolicy returns the failure policy that holds for a hook where one was asked for.
func computePolicy(hook runtimecatalog.GroupHook, asked runtimev1.FailurePolicy) runtimev1.FailurePolicy {
	if asked == runtimev1.FailurePolicyIgnore && ignorable[hook] {
		return runtimev1.FailurePolicyIgnore
	}
	return runtimev1.FailurePolicyFail
}

// decideIgnored reports whether Success is to take the place of an error: no understandable answer came, and the policy is Ignore. A
// Failure is an answer; neither it nor a wrong ExtensionConfig is ever ignored.
func decideIgnored(policy runtimev1.FailurePolicy, err error) bool {
	if policy != runtimev1.FailurePolicyIgnore {
		return false
	}
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return true
	}
	bad, ok := errors.AsType[*BadResponseError](err)
	return ok && !bad.understood
}
