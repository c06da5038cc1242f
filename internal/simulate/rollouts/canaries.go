package rollouts

import (
	"encoding/json"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// canaries are the record of failed canaries on a MachineDeployment: a bit per Machine, and the
// MachineSet that it is about. retry says that a person asks for one.
type canaries struct {
	failed         uint16
	of             uint8
	retried, retry bool
}

// annotate adds the annotations.
func (c canaries) annotate(annotations map[string]string) {
	if c.retry {
		annotations[v1alpha1.UpdateRetryAnnotation] = ""
	}
	if c.failed == 0 {
		return
	}
	record, _ := json.Marshal(pool.FailedCanaries{
		MachineSet: setName(c.of), Machines: namesIn(listMachines(c.failed)), Retried: c.retried,
	})
	annotations[v1alpha1.FailedCanariesAnnotation] = string(record)
}

func canariesOf(c *pool.FailedCanaries) canaries {
	if c == nil {
		return canaries{}
	}
	return canaries{failed: machineBits(c.Machines), of: slotOf(c.MachineSet), retried: c.Retried}
}

// recording adds what a MachineSet records before it deletes Machines.
func (e *explorer) recording(
	v view, f pool.SetFacts, going []*clusterv1.Machine, list []operation,
) []operation {
	if c := f.FailedCanaries(going); c != nil {
		o := operation{kind: recordCanaries, set: slotOf(f.MachineSet.Name), read: v.md}
		o.record = canariesOf(c)
		list = append(list, o)
	}
	return list
}

// followUp is what the MachineDeployment controller makes of the record.
func followUp(v view, g pool.Group) (o operation, changed bool) {
	c, changed := g.FailedCanaries()
	return operation{kind: writeRecord, record: canariesOf(c), read: v.md}, changed
}

// loseCanary notes that a canary is deleted whose update has begun and hangs. w.done counts all
// Machines that ever were done, so this finds no canary where the rules find none. A retry may have
// been asked for since the failure was recorded.
func (w *scene) loseCanary(e *explorer, i uint8) {
	m, asked := w.machines[i], has(w.md.failed, int(i)) && (w.md.retry || w.md.retried)
	if m.inUpdate() && m.hangs && m.owner == w.md.template && w.done < e.Canary && !asked {
		w.canaryLost = true
	}
}

// checkCanary says whether another Machine begins after a canary was remediated in its update.
func (e *explorer) checkCanary(w *scene, o operation) string {
	running := int8(0)
	for _, m := range w.machines {
		if m.owner == w.md.template && m.inUpdate() && !m.deleting {
			running++
		}
	}
	switch {
	case w.stockRan || w.opened || o.to != w.md.template:
	case w.canaryLost:
		return fmt.Sprintf("%v: the update of a canary has failed, and another Machine begins", o)
	case w.retriedOnce && !w.proven && running > e.Canary:
		return fmt.Sprintf("%v: %d Machines try an update that has failed, and at most %d may", o,
			running, e.Canary)
	}
	return ""
}
