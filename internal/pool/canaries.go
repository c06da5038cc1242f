package pool

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
)

// A canary whose update fails holds the rollout as long as its Machine exists. If the Machine is
// remediated, a new one takes its place, which has the template and is available: it looks like a
// canary that is done. So the MachineSet records the failure on the MachineDeployment before it
// deletes the Machine, for whatever reason but that a person asked for it. A change that fails
// everywhere would otherwise have one Machine replaced after the other.
//
//   - The record counts for one MachineSet, which is the target of the update. It is removed when
//     the template changes, and when the rollout is complete.
//   - As long as a Machine of the record exists, the record says nothing about it: its remediation
//     may be taken back, and its update tried again.
//   - A retry that a person asks for lets one set of canaries begin. Machines that took the place
//     of remediated ones are no canaries.

// FailedCanaries is the record of canaries that failed and were remediated; see package record.
type FailedCanaries = record.FailedCanaries

// FailedCanariesOf returns the record on a MachineDeployment; nil if there is none. It returns an
// error if the record cannot be read: nobody knows then whether the rollout may continue.
func FailedCanariesOf(md metav1.Object) (*FailedCanaries, error) {
	c, err := record.FailedCanariesOf(md.GetAnnotations())
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s of MachineDeployment %s: %w. Fix: remove the "+
			"annotation", v1alpha1.FailedCanariesAnnotation, objectName(md.GetNamespace(), md.GetName()),
			err)
	}
	return c, nil
}

// recall adds what the record on the MachineDeployment says about the rollout to newest, which is
// nil if there is no such MachineSet.
func (p *Progress) recall(
	md *clusterv1.MachineDeployment, newest *clusterv1.MachineSet, machines []*clusterv1.Machine,
) {
	c, err := FailedCanariesOf(md)
	switch {
	case err != nil:
		p.Held = err.Error()
		return
	case c == nil || newest == nil || c.MachineSet != newest.Name:
		return
	}
	alive := sets.New[string]()
	for _, m := range machines {
		if !isDeleting(m) && Owns(newest, m) {
			alive.Insert(m.Name)
		}
	}
	lost := slices.DeleteFunc(slices.Clone(c.Machines), alive.Has)
	p.Recall(*c, lost, int32(len(alive))) // #nosec G115 -- a number of Machines
}

// Recall adds what a record says about the rollout to its MachineSet, which has alive Machines.
// lost are those of the record that it has no more.
func (p *Progress) Recall(c FailedCanaries, lost []string, alive int32) {
	// Those without names count as gone.
	others := min(c.Others, int(alive))
	p.Replaced = min(int32(len(lost)+others), alive) // #nosec G115 -- numbers of Machines
	failed := "a Machine that the record counts"
	if len(lost) > 0 {
		failed = "Machine " + lost[len(lost)-1]
	}
	if len(lost)+c.Others > 0 && !c.Retried {
		p.Held = fmt.Sprintf("the update of %s, one of the first ones, failed, and the Machine "+
			"is gone. Fix: change the template, or set the annotation %s on the MachineDeployment to "+
			"try the next Machine", failed, v1alpha1.UpdateRetryAnnotation)
	}
}

// IsCanary reports whether the Machines of the new MachineSet that are not done are canaries. While
// nobody knows the limits, they may be.
func (l Limits) IsCanary(p Progress) bool { return l.Unknown != "" || l.Stage(p).Canary }

// FailedCanaries returns the record that must be on the MachineDeployment before Machines of the
// MachineSet are deleted; nil if it needs no change.
func (f SetFacts) FailedCanaries(going []*clusterv1.Machine) *FailedCanaries {
	names := f.failing(going)
	if len(names) == 0 || f.limits() == nil || !f.isTarget() {
		return nil
	}
	c, err := FailedCanariesOf(f.Deployment)
	isOther := c != nil && c.MachineSet != f.MachineSet.Name
	// A record that cannot be read holds the rollout.
	if err != nil || isOther && !f.isCurrent() || !f.limits().IsCanary(f.progress()) {
		return nil
	}
	return c.With(f.MachineSet.Name, names)
}

// failing are the Machines whose update has begun and ends with their deletion, but for those that
// a person has deleted.
func (f SetFacts) failing(going []*clusterv1.Machine) []string {
	var names []string
	for _, m := range going {
		if f.hasBegunUpdate(m) && !isDeleting(m) && !deletionAsked(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// isTarget reports whether the MachineSet has the template of its MachineDeployment.
func (f SetFacts) isTarget() bool {
	return f.Deployment != nil &&
		len(Differences(&f.MachineSet.Spec.Template, &f.Deployment.Spec.Template).Fields) == 0
}

// progress is how far the rollout to the template of the MachineSet is. It has what the canary
// depends on.
func (f SetFacts) progress() Progress {
	limits := *f.limits()
	limits.Order = policy.Order{}
	began := rolloutBegan(f.Deployment, f.MachineSet, f.Machines)
	members := func(yield func(Member) bool) {
		for _, m := range f.Machines {
			if !yield(memberOf(m, f.MachineSet, began, nil, f.past)) {
				return
			}
		}
	}
	p := limits.Observe(members, time.Time{}, f.Now).Progress
	p.Kept = f.keeps()
	p.Replicas = deref(f.Deployment.Spec.Replicas)
	p.recall(f.Deployment, f.MachineSet, f.Machines)
	return p
}

// FailedCanaries returns the record of failed canaries as it must be for the present template; nil
// for none. changed says that the MachineDeployment has another one: the template is another one,
// the rollout is complete, or a person asks for a retry, which this record answers.
func (g Group) FailedCanaries() (next *FailedCanaries, changed bool) {
	md := g.MachineDeployment
	c, err := FailedCanariesOf(md)
	if c == nil || err != nil {
		return nil, false
	}
	newest := Assign(md, g.MachineSets, g.Now).New
	if newest == nil || newest.Name != c.MachineSet {
		return nil, true
	}
	isOld := func(m *clusterv1.Machine) bool { return !Owns(newest, m) }
	if Complete(md, md.Status) && !slices.ContainsFunc(g.Machines, isOld) {
		return nil, true
	}
	if _, asked := md.Annotations[v1alpha1.UpdateRetryAnnotation]; asked && !c.Retried {
		retried := *c
		retried.Retried = true
		return &retried, true
	}
	return c, false
}
