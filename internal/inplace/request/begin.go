package request

import (
	"cmp"
	"fmt"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// hold is why an upgrade does not begin. One that is final is over until a person acts.
type hold struct {
	reason  Reason
	message string
	final   bool
}

func holds(reason Reason, format string, args ...any) *hold {
	return &hold{reason: reason, message: fmt.Sprintf(format, args...)}
}

func refuses(reason Reason, format string, args ...any) *hold {
	return &hold{reason: reason, message: fmt.Sprintf(format, args...), final: true}
}

// target is what an option means for a machine.
type target struct {
	option  Option
	desired version.Version
	// within is set where the version is not known before.
	within *inplace.Within
}

// begin decides whether the upgrade that the annotation asks for may begin. The order matters: first what a person must fix, then what passes by itself, then
// the updaters, and the lock last. With the lock all of it is decided once more.
func begin(f Machine) MachineVerdict {
	t, h := computeTarget(f)
	for _, check := range []func(Machine, target) *hold{checkObject, checkSkew, checkControlPlane, checkOrder} {
		if h != nil {
			break
		}
		h = check(f, t)
	}
	switch {
	case h != nil && h.final:
		return f.refuse(h.reason, h.message)
	case h != nil:
		return f.standBy(f.wait(h.reason, "not started: %s", h.message))
	}
	v := f.rest(State{Going: true, Reason: Reason(inplace.ReasonUpdating), Message: "finding updaters for " + f.Marks.To})
	v.Action = Ask{Option: t.option}
	return v
}

// standBy gives the lock back where a machine waits that has done nothing yet: what it waits for may be waiting for the lock.
func (f Machine) standBy(v MachineVerdict) MachineVerdict {
	if f.Holder == f.Name && (f.Upgrade == nil || f.Upgrade.Progress == nil) {
		v.Action = ReleaseLock{}
	}
	return v
}

// Planned takes the answer to the Ask that was decided on f: the upgrade begins, unless no updater can do it.
func Planned(f Machine, plan Plan) MachineVerdict {
	t, h := computeTarget(f)
	if h == nil {
		h = checkPlan(f, t, plan)
	}
	switch {
	case h != nil && h.final:
		return f.refuse(h.reason, h.message)
	case h != nil:
		return f.standBy(f.wait(h.reason, "not started: %s", h.message))
	case f.Upgrade != nil && f.Upgrade.isUnended() && len(plan.Steps) > 0 && plan.Steps[0].Updater != f.Upgrade.Progress.Steps[0].Updater:
		// Another updater knows nothing of what the earlier one may still be doing.
		return follow(f)
	case f.ControlPlane && f.Holder == "":
		v := f.rest(State{Going: true, Reason: ReasonLocked, Message: "taking the lock of the control plane"})
		v.Action = TakeLock{}
		return v
	}
	return start(f, t, plan.Steps)
}

// checkPlan says why the upgrade cannot begin by these updaters.
func checkPlan(f Machine, t target, plan Plan) *hold {
	switch {
	case plan.Refused != "":
		return refuses(ReasonNoUpdater, "%s", plan.Refused)
	case plan.Unknown != "":
		return holds(Reason(inplace.ReasonUpdaterUnknown), "%s", plan.Unknown)
	}
	kubelet := f.kubelet()
	minor, known := t.option.Minor()
	lag, ok := kubelet.Minor().Lag(minor)
	if !known || !ok {
		return nil
	}
	for _, s := range plan.Steps {
		if s.MaxMinors > 0 && int64(lag) > int64(s.MaxMinors) {
			return refuses(ReasonNoUpdater, "updater %q moves a kubelet by at most %d minors at once; %s to %s is %d. Fix: upgrade to a minor in between first", s.Updater, s.MaxMinors, kubelet, minor, lag)
		}
	}
	return nil
}

// start records the upgrade, with its first step.
func start(f Machine, t target, steps []inplace.Step) MachineVerdict {
	var before *inplace.Progress
	if f.Upgrade != nil {
		before = f.Upgrade.Progress
		if before == nil && f.Upgrade.Cordoned {
			before = &inplace.Progress{Cordoned: true}
		}
	}
	replaced, adopted := f, adopts(f)
	steps = selectSteps(f, t, steps, before)
	f.Marks.LastFailed = ""
	if adopted {
		f.Marks.Release = "" // The other controller has asked.
	} else {
		f.Marks.ChangeID = ""
	}
	f.Upgrade, f.Retry = nil, false
	facts := f.Facts()
	facts.Desired = t.desired
	begun := inplace.Start(facts, steps, t.within, before)
	f.Upgrade = &Upgrade{Option: f.Marks.To, Progress: &inplace.Progress{}}
	if _, there := begun.Action.(inplace.Finish); there {
		if v, ok := takeBack(replaced); ok {
			return v
		}
		return Finished(f)
	}
	v := Carried(f, begun.Progress)
	v.Action = Run{}
	if v.Event.Kind == NoEvent {
		v.Event = Event{Kind: Started, Message: "upgrading in place to " + f.Upgrade.Option}
	}
	return v
}

// selectSteps returns what has to be done: nothing where the machine runs the version already, as when it was brought there by hand, unless an earlier change
// may still run there. Nodes are drained for it, but not for a change that runs already.
func selectSteps(f Machine, t target, steps []inplace.Step, before *inplace.Progress) []inplace.Step {
	adopted := adopts(f)
	there := !t.desired.IsZero() && f.Node.Unknown == "" && f.Node.Exists && t.desired.RunBy(f.Node.Kubelet)
	if there && !adopted && (before == nil || !before.Unended) {
		return nil
	}
	steps = append([]inplace.Step(nil), steps...)
	for i := range steps {
		steps[i].NeedsDrain = !adopted
	}
	return steps
}

// adopts reports whether another controller began the change that the annotation asks for, and it is to be followed.
func adopts(f Machine) bool {
	return f.Upgrade == nil && f.Marks.ChangeID != "" && (f.Marks.Status == InProgress || f.Marks.Status == Done)
}

// kubelet is what the machine runs, as far as that is known.
func (f Machine) kubelet() version.Version {
	if f.Node.Unknown == "" && f.Node.Exists {
		return f.Node.Kubelet
	}
	return f.Spec
}

// refuseMinor refuses another minor for what a topology owns.
func refuseMinor(t Topology, spec version.Version, o Option) *hold {
	return refuses(ReasonTopologyOwned, "%s", MinorOfTopology(t, spec, o))
}

// MinorOfTopology says why an option of another minor is refused for an object that a topology owns, and what to do instead.
func MinorOfTopology(t Topology, spec version.Version, o Option) string {
	minor, _ := o.Minor()
	switch asked := !t.Version.IsZero() && t.Version.Minor() == minor; {
	case asked && t.Stuck != "":
		return fmt.Sprintf("Cluster %s has a topology, which asks for %s already, but %s", t.Cluster, t.Version, t.Stuck)
	case asked:
		return fmt.Sprintf("Cluster %s has a topology, which asks for %s already, and Cluster API brings the machines there. "+
			"Fix: remove the annotation; `windlass status` names what holds the upgrade", t.Cluster, t.Version)
	}
	return fmt.Sprintf("Cluster %s has a topology, which asks for %s, and %s is another minor: its next step would be blocked, or would undo this one. "+
		"Fix: change spec.topology.version of the Cluster instead; only releases of %s can be asked for here",
		t.Cluster, cmp.Or(t.Version, spec), o, spec.Minor())
}

// computeTarget computes what the option means for the machine: the version, or the minors between which it must end.
func computeTarget(f Machine) (target, *hold) {
	option, err := ParseOption(f.Marks.To)
	if err != nil {
		return target{}, refuses(ReasonBadOption, "%v", err)
	}
	t := target{option: option}
	if exact, ok := option.Exact(); ok {
		t.desired = exact
		return t, nil
	}
	if minor, ok := option.Minor(); ok {
		t.within = &inplace.Within{Oldest: minor, Newest: minor}
		return t, nil
	}
	t.within = computeWithin(f)
	return t, nil
}

// computeWithin computes where an upgrade may end whose version nobody knows before: what is found on the node then must fit the rest of the cluster.
func computeWithin(f Machine) *inplace.Within {
	if f.Topology.Cluster != "" {
		return &inplace.Within{Oldest: f.Spec.Minor(), Newest: f.Spec.Minor()}
	}
	current := f.kubelet().Minor()
	oldest, known := oldestPeer(f.Peers)
	within := &inplace.Within{Oldest: current, Newest: current}
	switch {
	case !f.ControlPlane && known && current.Before(oldest):
		within.Newest = oldest
	case !f.ControlPlane, known && oldest.Before(current):
	case f.OldestWorker.IsZero() || version.KubernetesSkew().Allows(f.OldestWorker.Minor(), current.Next()):
		within.Newest = current.Next()
	}
	return within
}

func oldestPeer(peers []Peer) (oldest version.Minor, ok bool) {
	for _, p := range peers {
		if minor := p.Kubelet.Minor(); !p.Kubelet.IsZero() && (!ok || minor.Before(oldest)) {
			oldest, ok = minor, true
		}
	}
	return oldest, ok
}

// checkObject looks at the machine itself.
func checkObject(f Machine, t target) *hold {
	minor, known := t.option.Minor()
	current := f.kubelet()
	switch {
	case known && f.Topology.Cluster != "" && minor != f.Spec.Minor():
		return refuseMinor(f.Topology, f.Spec, t.option)
	case known && minor.Before(current.Minor()):
		return refuses(ReasonDowngrade, "the machine runs %s, and %s is an older minor; Kubernetes cannot be downgraded", current, t.option)
	case f.Paused:
		return holds(ReasonPaused, "the machine or its Cluster is paused")
	case f.Remediation != "":
		return holds(ReasonRemediating, "the machine is marked for remediation:  %s", f.Remediation)
	case f.Busy != "":
		return holds(ReasonBusy, "%s", f.Busy)
	}
	return nil
}

// checkSkew looks at what the other machines of the cluster run: a worker's kubelet must not be newer than an API server, nor too old for it, and two API
// servers may be one minor apart (Kubernetes' version skew policy).
func checkSkew(f Machine, t target) *hold {
	minor, known := t.option.Minor()
	switch {
	case !known:
		return nil
	case f.ControlPlane:
		return checkControlPlaneSkew(f, minor)
	}
	if _, seen := oldestPeer(f.Peers); !seen && minor != f.kubelet().Minor() {
		return holds(ReasonSkew, "the version of the control plane is unknown, so a kubelet of %s may be too new for it", minor)
	}
	for _, p := range f.Peers {
		if p.Kubelet.IsZero() || version.KubernetesSkew().Allows(minor, p.Kubelet.Minor()) {
			continue
		}
		if p.Kubelet.Minor().Before(minor) {
			return holds(ReasonControlPlaneFirst, "%s", cmp.Or(f.ControlPlaneFirst,
				fmt.Sprintf("%s of the control plane runs %s, and no kubelet may be newer. Fix: upgrade the control plane to %s", p.Name, p.Kubelet, minor)))
		}
		return refuses(ReasonSkew, "%s of the control plane runs %s, beside which a kubelet of %s is too old. Fix: ask for a newer release", p.Name, p.Kubelet, minor)
	}
	return nil
}

func checkControlPlaneSkew(f Machine, minor version.Minor) *hold {
	current := f.kubelet()
	if apart(current.Minor(), minor) > 1 {
		return refuses(ReasonSkew, "the machine runs %s, and a control plane is upgraded one minor at a time. Fix: ask for a release of %s first", current, current.Minor().Next())
	}
	for _, p := range f.Peers {
		if !p.Kubelet.IsZero() && apart(p.Kubelet.Minor(), minor) > 1 {
			return refuses(ReasonSkew, "control plane Machine %s runs %s, and API servers may be one minor apart. Fix: upgrade it to within one minor of %s first", p.Name, p.Kubelet, minor)
		}
	}
	if !f.OldestWorker.IsZero() && !version.KubernetesSkew().Allows(f.OldestWorker.Minor(), minor) {
		return refuses(ReasonSkew, "a worker runs %s, which is too old for a control plane of %s. Fix: upgrade the workers first", f.OldestWorker, minor)
	}
	return nil
}

// apart returns by how many minors two versions differ; a large number where they are of different majors.
func apart(a, b version.Minor) uint32 {
	if lag, ok := a.Lag(b); ok {
		return lag
	}
	if lag, ok := b.Lag(a); ok {
		return lag
	}
	return ^uint32(0)
}

// checkControlPlane lets a control plane Machine begin only while the others are as they should be. What is wrong with the machine itself does not
// count: its upgrade may be what fixes it.
func checkControlPlane(f Machine, _ target) *hold {
	if !f.ControlPlane {
		return nil
	}
	if f.Holder != "" && f.Holder != f.Name {
		return holds(ReasonLocked, "Machine %s holds the lock of the control plane; it is released when its upgrade has ended, or, if that has failed, when its annotation is removed", f.Holder)
	}
	for _, p := range f.Peers {
		if p.Busy != "" {
			return holds(ReasonLocked, "control plane Machine %s %s", p.Name, p.Busy)
		}
	}
	for _, p := range f.Peers {
		if p.NotReady != "" {
			return holds(ReasonControlPlaneUnhealthy, "control plane Machine %s: %s", p.Name, p.NotReady)
		}
	}
	if f.Etcd != "" && len(f.Peers) > 0 {
		return holds(ReasonEtcdUnhealthy, "%s", f.Etcd)
	}
	return nil
}

// checkOrder has workers wait for the control plane.
func checkOrder(f Machine, _ target) *hold {
	if f.ControlPlane || f.ControlPlaneFirst == "" {
		return nil
	}
	return holds(ReasonControlPlaneFirst, "%s", f.ControlPlaneFirst)
}
