package metrics

import "github.com/prometheus/client_golang/prometheus"

// MaxSets is how many label sets a family has at most. A label set is one series, of the histogram
// 16.
const MaxSets = 2000

// Labels.
const (
	labelNamespace = "cluster_namespace"
	labelCluster   = "cluster"
	labelUpdater   = "updater"
	labelResult    = "result"
)

// Role is what a process serves, the value of the label serves of windlass_leader.
type Role string

// Roles. A manager that serves the extension, too, has the role Extension.
const (
	Extension Role = "extension"
	Manager   Role = "manager"
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

// durationBuckets go from a minute to six hours: a refresh of a snap takes minutes, a drain may
// take hours.
var durationBuckets = []float64{
	60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 21600,
}

// gauge is a family whose series are computed at each scrape.
type gauge struct {
	name string
	desc *prometheus.Desc
}

func newGauge(name, help string, labels ...string) gauge {
	labels = append([]string{labelNamespace, labelCluster}, labels...)
	return gauge{name: name, desc: prometheus.NewDesc(name, help, labels, nil)}
}

var (
	infoFamily = newGauge("windlass_cluster_upgrade_info",
		"1 for each upgrade that is under way, with its versions. Its phase is Upgrading or Held.",
		"from", "to", "phase")
	stepFamily = newGauge("windlass_cluster_upgrade_step",
		"Number of the control plane's present step, from 1. Only windlass manager records it.")
	leftFamily = newGauge("windlass_cluster_upgrade_steps_left",
		"Steps of the control plane that follow the present one.")
	upToDateFamily = newGauge("windlass_cluster_machines_up_to_date",
		"Machines that Cluster API counts as up to date, of a Cluster that is being upgraded.")
	heldFamily = newGauge("windlass_cluster_upgrade_held_seconds",
		"How long what holds the upgrade has held it, by what sort of thing it is.", "reason")
	gateFamily = newGauge("windlass_gate_waiting",
		"1 for each Cluster that an UpgradeGate holds, and the hook at which it does.",
		"gate", "hook")
	updatesFamily = newGauge("windlass_machine_updates",
		"Machines whose update in place has begun or waits for its turn, by phase.", "phase")
	blockedFamily = newGauge("windlass_machinedeployment_blocked",
		"1 for each MachineDeployment whose update waits for a person, with the reason. Only "+
			"windlass manager serves it.", "machinedeployment", "reason")
	leaderDesc = prometheus.NewDesc("windlass_leader",
		"1 if this process leads; 0 if it waits, and serves no series of a Cluster.",
		[]string{"serves"}, nil)
	omittedDesc = prometheus.NewDesc("windlass_metrics_omitted_label_sets",
		"Label sets beyond the limit of a family: gauges omit them, others count them without a Cluster.",
		[]string{"family"}, nil)
)

// NewActive returns the metric of the label by which a Service finds the replica that leads.
// labelled reports whether this process leads and its Pod has the label.
func NewActive(labelled func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windlass_active",
		Help: "1 if this process leads and its Pod has the label by which the Service finds it.",
	}, func() float64 {
		if labelled() {
			return 1
		}
		return 0
	})
}

// gauges returns all gauges of Clusters.
func gauges() []gauge {
	return []gauge{
		infoFamily, stepFamily, leftFamily, upToDateFamily, heldFamily, gateFamily, updatesFamily,
		blockedFamily,
	}
}
