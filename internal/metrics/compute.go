package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
)

// sample is one series of a gauge.
type sample struct {
	labels []string
	value  float64
}

// samples are the series of each family, by its name.
type samples map[string][]sample

func (s samples) add(g gauge, cluster types.NamespacedName, value float64, labels ...string) {
	labels = append([]string{cluster.Namespace, cluster.Name}, labels...)
	s[g.name] = append(s[g.name], sample{labels: labels, value: value})
}

// limit returns at most so many of a family's series. Each namespace has the same share, so that a
// tenant with many Clusters hides those of no other tenant. Namespaces with less leave theirs to the others.
func limit(all []sample, most int) []sample {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b sample) int {
		return slices.Compare(a.labels, b.labels)
	})
	if len(sorted) <= most {
		return sorted
	}
	spaces := map[string][]sample{}
	for _, s := range sorted {
		spaces[s.labels[0]] = append(spaces[s.labels[0]], s)
	}
	names := slices.SortedFunc(maps.Keys(spaces), func(a, b string) int {
		return cmp.Or(len(spaces[a])-len(spaces[b]), strings.Compare(a, b))
	})
	kept := make([]sample, 0, most)
	for i, name := range names {
		share := (most - len(kept)) / (len(names) - i)
		kept = append(kept, spaces[name][:min(len(spaces[name]), share)]...)
	}
	return kept
}

// The values of the label phase of windlass_cluster_upgrade_info are two states of `windlass
// status`.
const phaseUpgrading, phaseHeld = string(status.ChainUpgrading), string(status.ChainHeld)

// compute returns the series of all gauges, in any order.
func (c *Collector) compute(f facts) samples {
	s := samples{}
	known := map[types.NamespacedName]bool{}
	for _, cluster := range f.clusters {
		known[client.ObjectKeyFromObject(cluster)] = true
	}
	s.addBlocked(f.deployments, known)
	if !f.upgrades {
		return s
	}
	failedSince := s.addMachines(f.machines, known)
	held := map[holdKey]bool{}
	for _, cluster := range f.clusters {
		key := client.ObjectKeyFromObject(cluster)
		now := c.Now()
		glance := status.ComputeGlance(cluster, f.gates[cluster.Namespace], now)
		if !glance.UnderWay {
			continue
		}
		holds := glance.Holds
		if since, failed := failedSince[key]; failed {
			holds = append(holds, status.Hold{Kind: status.HeldByMachines, Since: since})
		}
		s.addGlance(key, glance, len(holds) > 0)
		for _, h := range holds {
			k := holdKey{cluster: cluster.UID, reason: string(h.Kind)}
			held[k] = true
			lasts := c.holding.Lasts(k, h.By, now)
			if !h.Since.IsZero() {
				lasts = now.Sub(h.Since)
			}
			s.add(heldFamily, key, max(0, lasts).Seconds(), string(h.Kind))
		}
	}
	c.holding.ForgetFunc(func(k holdKey) bool { return !held[k] })
	return s
}

func (s samples) addGlance(key types.NamespacedName, g status.Glance, held bool) {
	phase := phaseUpgrading
	if held {
		phase = phaseHeld
	}
	s.add(infoFamily, key, 1, g.From.String(), g.To.String(), phase)
	if g.Recorded {
		s.add(stepFamily, key, float64(g.Step))
	}
	s.add(leftFamily, key, float64(g.Left))
	s.add(upToDateFamily, key, float64(g.UpToDate))
	for _, gate := range g.Gates {
		s.add(gateFamily, key, 1, gate.Gate, string(gate.Hook))
	}
}

// addBlocked adds the MachineDeployments with the condition UpdateBlocked, but for those that are
// being deleted: nobody waits for their update.
func (s samples) addBlocked(
	deployments []clusterv1.MachineDeployment, known map[types.NamespacedName]bool,
) {
	for i := range deployments {
		md := &deployments[i]
		c := meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
		blocked := c != nil && c.Status == metav1.ConditionTrue && md.DeletionTimestamp.IsZero()
		cluster := types.NamespacedName{Namespace: md.Namespace, Name: md.Spec.ClusterName}
		if blocked && known[cluster] {
			s.add(blockedFamily, cluster, 1, md.Name, c.Reason)
		}
	}
}

// addMachines counts the machines under update by phase, and returns since when a machine of a
// Cluster has failed finally.
func (s samples) addMachines(
	machines []metav1.PartialObjectMetadata, known map[types.NamespacedName]bool,
) map[types.NamespacedName]time.Time {
	type phaseOf struct {
		cluster types.NamespacedName
		phase   string
	}
	count, failedSince := map[phaseOf]int{}, map[types.NamespacedName]time.Time{}
	for i := range machines {
		m := &machines[i]
		phase, since := status.UpdatePhase(m)
		cluster := types.NamespacedName{Namespace: m.Namespace, Name: capi.ClusterName(m)}
		if phase == "" || !known[cluster] {
			continue
		}
		count[phaseOf{cluster, phase}]++
		first, has := failedSince[cluster]
		if phase == string(inplace.Failed) && (!has || since.Before(first)) {
			failedSince[cluster] = since
		}
	}
	for of, n := range count {
		s.add(updatesFamily, of.cluster, float64(n), of.phase)
	}
	return failedSince
}
