package request

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// compareKubelets decides about a group whose machines all have the release. It reports whether what they
// run keeps the upgrade from ending.
func (f Group) compareKubelets(members []Member) (v GroupVerdict, stop bool) {
	unknown := slices.IndexFunc(members, func(m Member) bool { return m.KubeletUnknown != "" })
	if unknown >= 0 {
		return f.wait(
			ReasonMachinesHeld, "%s; waiting for the version of Machine %s: %s",
			f.count(members), members[unknown].Name, members[unknown].KubeletUnknown,
		), true
	}
	if odd := f.oddOne(members); odd != "" {
		return f.failOdd(odd), true
	}
	return GroupVerdict{}, false
}

// oddOne names a machine that runs another version than the others, though a revision is the same snap everywhere; empty where there is none. What was
// said to be there already is not, then.
func (f Group) oddOne(members []Member) string {
	option, err := ParseOption(f.Record.Option)
	if err != nil || option.Method != Revision {
		return ""
	}
	seen := map[version.Version]int{}
	for _, m := range members {
		seen[m.Kubelet]++
	}
	if len(seen) < 2 {
		return ""
	}
	odd := slices.MinFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(seen[a.Kubelet], seen[b.Kubelet]), strings.Compare(a.Name, b.Name))
	})
	return fmt.Sprintf("Machine %s runs %s, and others run another version, though %s is the same everywhere; look at `snap list k8s` on its node, and upgrade it by itself", odd.Name, odd.Kubelet, option)
}

// failOdd records that the machines do not all have what was recorded of them.
func (f Group) failOdd(why string) GroupVerdict {
	record := *f.Record
	record.Reason, record.Message = ReasonFailed, why
	v := f.rest(State{Reason: ReasonFailed, Message: why})
	v.Kubelets = true
	v.After.Record, v.After.Marks.Status = &record, Failed
	if f.Marks.Status != Failed {
		v.Event = Event{Kind: FailedFinally, Message: why}
	}
	return v
}

// reachedVersion returns what the machines run: the oldest, where they are not all alike.
func reachedVersion(members []Member) (reached version.Version, uniform bool) {
	uniform = true
	for i, m := range members {
		if i == 0 {
			reached = m.Kubelet
			continue
		}
		uniform = uniform && reached == m.Kubelet
		if version.Compare(m.Kubelet, reached) == version.Less {
			reached = m.Kubelet
		}
	}
	return reached, uniform && !reached.IsZero()
}
