package guard

import "fmt"

// The names in messages are those of api/v1alpha1 and Cluster API.
const (
	allowReplacementAnnotation = "windlass.dev/allow-replacement"
	deleteMachineAnnotation    = "cluster.x-k8s.io/delete-machine"
	machineDeploymentKind      = "MachineDeployment"
)

func (g Group) String() string { return g.Kind + " " + g.Name }

// keeps says whose will it is.
func keeps(r Request) string {
	return fmt.Sprintf("its UpdatePolicy %s keeps machines (fallback None)", r.Policy)
}

func wouldReplace(r Request) string {
	updating := ""
	if r.Machine.Updating {
		updating = ", which is being updated in place"
	}
	return fmt.Sprintf("would replace Machine %s of %s%s: %s. "+
		"Fix: to delete it by hand or let it be replaced, annotate the Machine with %s first; "+
		"to scale down, lower spec.replicas (now %d) first. "+
		"If no person deletes it, `windlass doctor` shows why Cluster API replaces it",
		r.Machine.Name, r.Group, updating, keeps(r), allowReplacementAnnotation, r.Group.Desired)
}

func wouldReplaceAnother(r Request) string {
	return fmt.Sprintf("would replace Machine %s of %s: %s. There are %d machines for spec.replicas %d because %d of them may be replaced (annotation "+
		"%s), and this Machine is not one of them. Fix: annotate those with %s too, so that Cluster API chooses them",
		r.Machine.Name, r.Group, keeps(r), r.Group.Machines, r.Group.Desired, r.Group.Replaceable, allowReplacementAnnotation, deleteMachineAnnotation)
}

func wouldSurge(r Request) string {
	fix := "set maxSurge 0 (spec.rollout.strategy.rollingUpdate, from 3 replicas on)"
	if r.Group.Kind == machineDeploymentKind {
		fix = "set maxSurge 0 and maxUnavailable 1 (spec.rollout.strategy.rollingUpdate)"
	}
	return fmt.Sprintf("would create a machine beyond spec.replicas %d of %s, and so replace one: %s. Fix: for updates in place, %s; to let a Machine be "+
		"replaced, annotate it with %s; to scale up, raise spec.replicas. `windlass doctor` shows why Cluster API replaces machines",
		r.Group.Desired, r.Group, keeps(r), fix, allowReplacementAnnotation)
}

// ExplainUnasked completes the message of a refusal where a rollout wants the Machine replaced and
// no decision to update it in place is stored. Stock Cluster API calls the hook once for two
// MachineSets, and then keeps the answer for up to a day, also if the policies change. windlass
// manager keeps no answer. A verdict that allows stays unchanged.
func ExplainUnasked(v Verdict, policy string) Verdict {
	if !v.Allowed {
		v.Message += fmt.Sprintf(". No hook allowed this rollout in place under UpdatePolicy %s. "+
			"If stock Cluster API drives the Cluster and the policy is newer than the rollout, change "+
			"the template again or restart capi-controller-manager, so that it calls the hooks; "+
			"windlass manager needs no restart", policy)
	}
	return v
}
