package annotated

import (
	"fmt"

	"github.com/windlass-dev/windlass/internal/core/inplace"
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

// begin decides whether the upgrade that the annotation asks for may begin. The order matters: first what a person must mend, then what passes by itself; the
// lock comes last, so that nobody holds it and waits.
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
		return f.wait(h.reason, "not started: %s", h.message)
	case f.ControlPlane && f.Holder == "":
		v := f.rest(State{Going: true, Reason: ReasonLocked, Message: "taking the lock of the control plane"})
		v.Action = TakeLock{}
		return v
	}
	v := f.rest(State{Going: true, Reason: Reason(inplace.ReasonUpdating), Message: "finding updaters for " + f.Marks.To})
	v.Action = Ask{Option: t.option}
	return v
}

// Planned takes the answer to the Ask that was decided on f: the upgrade begins, unless no updater can do it.
func Planned(f Machine, plan Plan) MachineVerdict {
	t, h := computeTarget(f)
	switch {
	case h != nil:
		return f.refuse(h.reason, h.message)
	case plan.Refused != "":
		return f.refuse(ReasonNoUpdater, plan.Refused)
	case plan.Unknown != "":
		return f.wait(Reason(inplace.ReasonUpdaterUnknown), "not started: %s", plan.Unknown)
	}
	kubelet := f.kubelet()
	for _, s := range plan.Steps {
		minor, known := t.option.Minor()
		if lag, ok := kubelet.Minor().Lag(minor); known && ok && s.MaxMinors > 0 && int64(lag) > int64(s.MaxMinors) {
			return f.refuse(ReasonNoUpdater, fmt.Sprintf("updater %q moves a kubelet by at most %d minors at once, and from %s to %s are %d; go by way of a minor in between",
				s.Updater, s.MaxMinors, kubelet, minor, lag))
		}
	}
	return start(f, t, plan.Steps)
}

// start records the upgrade, and takes the first step.
func start(f Machine, t target, steps []inplace.Step) MachineVerdict {
	var before *inplace.Progress
	if f.Upgrade != nil {
		before = f.Upgrade.Progress
	}
	adopted := adopts(f)
	steps = append([]inplace.Step(nil), steps...)
	if !t.desired.IsZero() && f.Node.Unknown == "" && f.Node.Exists && t.desired.RunBy(f.Node.Kubelet) && !adopted {
		// It is there already, as when a control plane machine's neighbour was brought there by hand.
		steps = nil
	}
	for i := range steps {
		steps[i].NeedsDrain = !adopted
	}
	f.Upgrade = nil
	facts := f.facts()
	facts.Desired = t.desired
	u := &Upgrade{Option: f.Marks.To, Progress: &inplace.Progress{}}
	marks := f.Marks
	marks.LastFailed = ""
	if !adopted {
		marks.ChangeID = ""
	}
	f.Marks, f.Upgrade, f.Retry = marks, u, false
	v := take(f, inplace.Start(facts, steps, t.within, before))
	if v.Event.Kind == NoEvent {
		v.Event = Event{Kind: Started, Message: "upgrading in place to " + u.Option}
	}
	return v
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
func refuseMinor(cluster string, spec version.Version, o Option) *hold {
	return refuses(ReasonTopologyOwned, "%s", MinorOfTopology(cluster, spec, o))
}

// MinorOfTopology says why an option of another minor is refused for an object that the topology of a Cluster owns, and what to do instead.
func MinorOfTopology(cluster string, spec version.Version, o Option) string {
	return fmt.Sprintf("Cluster %s has a topology, which says %s, and %s is another minor: its next step would be blocked, or undo this one. "+
		"Change spec.topology.version of the Cluster instead; releases of %s may be asked for here", cluster, spec, o, spec.Minor())
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
	current := f.kubelet().Minor()
	t.within = &inplace.Within{Oldest: current, Newest: current.Next()}
	switch {
	case f.Topology != "":
		t.within = &inplace.Within{Oldest: f.Spec.Minor(), Newest: f.Spec.Minor()}
	case !f.ControlPlane:
		t.within.Newest = current
		if oldest, ok := oldestPeer(f.Peers); ok && current.Before(oldest) {
			t.within.Newest = oldest
		}
	}
	return t, nil
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
	case known && f.Topology != "" && minor != f.Spec.Minor():
		return refuseMinor(f.Topology, f.Spec, t.option)
	case known && minor.Before(current.Minor()):
		return refuses(ReasonDowngrade, "the machine runs %s, and %s is an older minor; Kubernetes cannot go back", current, t.option)
	case f.Paused:
		return holds(ReasonPaused, "the machine or its Cluster is paused")
	case f.Remediating:
		return holds(ReasonRemediating, "the machine is up for remediation")
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
	for _, p := range f.Peers {
		if p.Kubelet.IsZero() || version.KubernetesSkew().Allows(minor, p.Kubelet.Minor()) {
			continue
		}
		if f.ControlPlaneFirst != "" && p.Kubelet.Minor().Before(minor) {
			return holds(ReasonControlPlaneFirst, "%s", f.ControlPlaneFirst)
		}
		return refuses(ReasonSkew, "control plane Machine %s runs %s, beside which no kubelet of %s may run; upgrade the control plane first, or ask for another release", p.Name, p.Kubelet, minor)
	}
	return nil
}

func checkControlPlaneSkew(f Machine, minor version.Minor) *hold {
	current := f.kubelet()
	if apart(current.Minor(), minor) > 1 {
		return refuses(ReasonSkew, "the machine runs %s, and a control plane goes one minor at a time; ask for a release of %s first", current, current.Minor().Next())
	}
	for _, p := range f.Peers {
		if !p.Kubelet.IsZero() && apart(p.Kubelet.Minor(), minor) > 1 {
			return refuses(ReasonSkew, "control plane Machine %s runs %s, and API servers may be one minor apart; bring it to within one minor of %s first", p.Name, p.Kubelet, minor)
		}
	}
	if !f.OldestWorker.IsZero() && !version.KubernetesSkew().Allows(f.OldestWorker.Minor(), minor) {
		return refuses(ReasonSkew, "a worker runs %s, which may not run beside a control plane of %s; upgrade the workers first", f.OldestWorker, minor)
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
// count: its upgrade may be what mends it.
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
