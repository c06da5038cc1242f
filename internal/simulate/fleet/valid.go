package fleet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// check returns what is wrong with a Config, all of it together, or nil.
func check(c *Config) error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(c.Clusters) == 0 {
		problem("there is no cluster to simulate. Fix: name at least one")
	}
	clusters := map[string]bool{}
	for i := range c.Clusters {
		cluster := &c.Clusters[i]
		if cluster.Name == "" || clusters[cluster.Name] {
			problem("the name %q of cluster %d is empty or stands twice. Fix: give each cluster a name of its own", cluster.Name, i+1)
		}
		clusters[cluster.Name] = true
		problems = append(problems, checkCluster(cluster)...)
	}
	for name, rate := range map[string]float64{"conflict": c.Faults.Conflict, "stale": c.Faults.Stale, "lost": c.Faults.Lost, "crash": c.Faults.Crash} {
		if !(rate >= 0 && rate < 1) {
			problem("the rate of %s faults is %v; it must be at least 0 and below 1", name, rate)
		}
	}
	return errors.Join(problems...)
}

func checkCluster(c *Cluster) []error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("cluster %s: "+format, append([]any{c.Name}, args...)...))
	}
	if c.Target.IsZero() || c.ControlPlane.Version.IsZero() {
		problem("the control plane's version or the target is missing")
	}
	if c.ControlPlane.Replicas < 1 {
		problem("the control plane has %d machines; it needs at least one", c.ControlPlane.Replicas)
	}
	if err := checkUpdate(&c.ControlPlane.Update); err != nil {
		problem("control plane: %w", err)
	}
	pools, inFlight := map[string]bool{ControlPlaneGroup: true}, map[string]int{}
	for i := range c.Pools {
		p := &c.Pools[i]
		if p.Name == "" || pools[p.Name] {
			problem("the name %q of pool %d is empty, reserved, or stands twice. Fix: give each pool a name of its own", p.Name, i+1)
		}
		pools[p.Name] = true
		if err := checkPool(p, inFlight); err != nil {
			problem("pool %s: %w", p.Name, err)
		}
	}
	return problems
}

// checkPool looks at one pool. inFlight is what the policies of the cluster's other pools say, by name.
func checkPool(p *Pool, inFlight map[string]int) error {
	if p.Version.IsZero() || min(p.Replicas, p.MaxSurge, p.MaxUnavailable, p.Lagging) < 0 || p.Lagging > p.Replicas {
		return errors.New("its version is missing, or a number is below zero, or more machines lag than there are")
	}
	if !p.Update.InPlace {
		return nil
	}
	name, most := p.Update.PolicyName, int(p.Update.Policy.MaxInFlight)
	if other, ok := inFlight[name]; ok && other != most {
		return fmt.Errorf("policy %q has maxInFlight %d here, and %d elsewhere. Fix: name two policies", name, most, other)
	}
	inFlight[name] = most
	return checkUpdate(&p.Update)
}

func checkUpdate(u *Update) error {
	if !u.InPlace {
		return nil
	}
	switch {
	case !slices.ContainsFunc(u.Steps, func(s inplace.Step) bool { return s.SetsVersion }):
		return errors.New("no updater moves its machines to another version; mark one, or have machines replaced")
	case u.Policy.MaxAttempts < 1 || u.Policy.AttemptTimeout <= 0:
		return errors.New("the policy allows no attempt, or no time for one")
	default:
		return nil
	}
}
