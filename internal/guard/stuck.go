package guard

import "fmt"

// ControlPlane is one whose policy keeps machines, and whose provider rolls out as KubeadmControlPlane does.
type ControlPlane struct {
	// Kind and Name are those of the object, and Policy is the name of the UpdatePolicy.
	Kind, Name, Policy string
	// Replicas and MaxSurge are what the object asks for; MaxSurge is 0 or 1.
	Replicas, MaxSurge int
	// Machines counts its Machines that are not being deleted, and Replaceable those of them that carry the
	// annotation windlass.dev/allow-replacement.
	Machines, Replaceable int
}

// fewestSurgeless is how many replicas a KubeadmControlPlane must have before Cluster API accepts maxSurge 0.
// Other providers accept it for any number.
const (
	fewestSurgeless     = 3
	kubeadmControlPlane = "KubeadmControlPlane"
)

// IsStuck reports whether a change that its machines lack can never reach all of them. Cluster API creates
// machines until there are Replicas+MaxSurge, and only then asks whether one can be updated in place
// (rollingUpdate in controlplane/kubeadm/reconcilers/kubeadmcontrolplane/update.go; upgradeControlPlane of
// CAPRKE2 does the same). Decide refuses the machine
// beyond Replicas, unless a person lets one be replaced.
func (c ControlPlane) IsStuck() bool {
	if c.Machines >= c.Replicas+c.MaxSurge {
		return false
	}
	spare := Request{Operation: Create, Guarded: true, Policy: c.Policy, Group: Group{
		Kind: c.Kind, Name: c.Name, Desired: c.Replicas, Machines: max(c.Machines, c.Replicas), Replaceable: c.Replaceable,
	}}
	return c.MaxSurge > 0 && !Decide(spare).Allowed
}

// Why says why it is stuck, and Fix what a person can do.
func (c ControlPlane) Why() string {
	creator := "Cluster API"
	if c.Kind != kubeadmControlPlane {
		creator = "its provider"
	}
	return fmt.Sprintf("UpdatePolicy %s keeps its machines, but with maxSurge %d %s creates a machine beyond replicas %d "+
		"before it updates one in place", c.Policy, c.MaxSurge, creator, c.Replicas)
}

// Fix says which ways out there are. The first one keeps the machines, where Cluster API has such a way.
func (c ControlPlane) Fix() string {
	replace := fmt.Sprintf("let Machines be replaced (annotation %s on them, or fallback RollingUpdate in the UpdatePolicy)", allowReplacementAnnotation)
	if c.Kind != kubeadmControlPlane {
		return fmt.Sprintf("set maxSurge 0 (rollingUpdate in the rollout strategy of the %s, in its ClusterClass's template if it has one), or %s", c.Kind, replace)
	}
	if c.Replicas >= fewestSurgeless {
		return "set maxSurge 0 (spec.rollout.strategy.rollingUpdate of the KubeadmControlPlane, in its ClusterClass's template if it has one), or " + replace
	}
	return fmt.Sprintf("%s, or scale it to %d and then set maxSurge 0; see docs/how-to/control-planes-of-one-machine.md", replace, fewestSurgeless)
}
