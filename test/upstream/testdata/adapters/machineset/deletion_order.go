package machineset

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

type deletePriorityFunc = pool.PriorityByAge

var (
	randomDeletionOrder = pool.RandomFirst
	oldestDeletionOrder = pool.OldestFirst
	newestDeletionOrder = pool.NewestFirst
)

func getDeletePriorityFunc(ms *clusterv1.MachineSet) (deletePriorityFunc, error) {
	return pool.OrderOf(ms)
}

func getMachinesToMovePrioritized(
	all []*clusterv1.Machine, byAge deletePriorityFunc,
) []*clusterv1.Machine {
	return getMachinesToDeletePrioritized(all, len(all), byAge)
}

func getMachinesToDeletePrioritized(
	all []*clusterv1.Machine, count int, byAge deletePriorityFunc,
) []*clusterv1.Machine {
	first := []*clusterv1.Machine{}
	order := pool.SetFacts{Machines: all, Now: time.Now()}.Order(byAge)
	for _, c := range pool.First(order, count) {
		first = append(first, c.Machine)
	}
	return first
}

func isMachineHealthy(m *clusterv1.Machine) bool { return pool.IsHealthy(m) }
