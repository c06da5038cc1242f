package metrics

import "github.com/prometheus/client_golang/prometheus"

// MaxSets is how many label sets a family has at most. A label set is one series, of the histogram 16.
const MaxSets = 2000

// Labels.
const (
	labelNamespace = "cluster_namespace"
	labelCluster   = "cluster"
	labelUpdater   = "updater"
	labelResult    = "result"
)

// Results of attempts and of updates.
const (
	Success   = "success"
	Failure   = "failure"
	Abandoned = "abandoned"
)

const (
	durationFamily = "windlass_machine_update_duration_seconds"
	attemptsFamily = "windlass_machine_update_attempts_total"
)

// durationBuckets go from a minute to six hours: a refresh of a snap takes minutes, a drain may take hours.
var durationBuckets = []float64{60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 21600}

// gauge is a family whose series are computed at each scrape.
type gauge struct {
	name string
	desc *prometheus.Desc
}

func newGauge(name, help string, labels ...string) gauge {
	return gauge{name: name, desc: prometheus.NewDesc(name, help, append([]string{labelNamespace, labelCluster}, labels...), nil)}
}

var (
	infoFamily = newGauge("windlass_cluster_upgrade_info",
		"1 for each Cluster whose upgrade is under way, with the versions that it goes from and to, and whether it is Upgrading or Held.",
		"from", "to", "phase")
	stepFamily = newGauge("windlass_cluster_upgrade_step",
		"Number of the present step of the control plane, from 1; 0 before the first. Only windlass manager records it.")
	leftFamily = newGauge("windlass_cluster_upgrade_steps_left",
		"Steps of the control plane that follow the present one.")
	heldFamily = newGauge("windlass_cluster_upgrade_held_seconds",
		"How long what holds the upgrade has held it, by what sort of thing it is.", "reason")
	gateFamily = newGauge("windlass_gate_waiting",
		"1 for each Cluster that waits at an UpgradeGate, and the hook at which it does.", "gate", "hook")
	updatesFamily = newGauge("windlass_machine_updates",
		"Machines whose update in place has begun or waits for its turn, by phase.", "phase")
	leaderDesc  = prometheus.NewDesc("windlass_leader", "1 if this process leads, and serves all other families of Clusters; 0 if it waits.", nil, nil)
	omittedDesc = prometheus.NewDesc("windlass_metrics_omitted_label_sets",
		"Label sets beyond the limit of a family. Gauges leave them out; counters and histograms count them without a Cluster.",
		[]string{"family"}, nil)
)

// gauges are all of them, in the order in which they are shown.
func gauges() []gauge {
	return []gauge{infoFamily, stepFamily, leftFamily, heldFamily, gateFamily, updatesFamily}
}
