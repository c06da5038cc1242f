package pool

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Difference is what makes Machines of one template differ from those of another. The zero value is
// none.
type Difference struct {
	// Fields names the fields and their values, for logs.
	Fields []string
	// Messages are the same for conditions of Machines. They are API: clients match "Version X, Y
	// required".
	Messages []string
}

func (d *Difference) add(field, message string) {
	d.Fields = append(d.Fields, field)
	d.Messages = append(d.Messages, message)
}

// Differences compares two templates by what cannot be changed on a Machine but by an update or a
// replacement: version, bootstrap, infrastructure and failure domain. Labels, annotations,
// timeouts, readiness gates and taints are propagated to existing Machines and do not count.
func Differences(current, desired *clusterv1.MachineTemplateSpec) Difference {
	var d Difference
	is, wants := &current.Spec, &desired.Spec
	if is.Version != wants.Version {
		d.add(fmt.Sprintf("spec.version %s, %s required", is.Version, wants.Version),
			fmt.Sprintf("Version %s, %s required", is.Version, wants.Version))
	}
	d.compareBootstrap(is.Bootstrap, wants.Bootstrap)
	if i, w := is.InfrastructureRef, wants.InfrastructureRef; i != w {
		d.add(
			fmt.Sprintf(
				"spec.infrastructureRef %s %s, %s %s required",
				i.Kind,
				i.Name,
				w.Kind,
				w.Name,
			),
			outdated(i.Kind),
		)
	}
	if is.FailureDomain != wants.FailureDomain {
		d.add(
			fmt.Sprintf(
				"spec.failureDomain %s, %s required",
				is.FailureDomain,
				wants.FailureDomain,
			),
			fmt.Sprintf("Failure domain %s, %s required", is.FailureDomain, wants.FailureDomain),
		)
	}
	return d
}

func (d *Difference) compareBootstrap(is, wants clusterv1.Bootstrap) {
	if reflect.DeepEqual(is, wants) {
		return
	}
	if is.ConfigRef.IsDefined() {
		d.add(fmt.Sprintf("spec.bootstrap.configRef %s %s, %s %s required",
			is.ConfigRef.Kind, is.ConfigRef.Name, wants.ConfigRef.Kind, wants.ConfigRef.Name),
			outdated(is.ConfigRef.Kind))
		return
	}
	text := fmt.Sprintf("spec.bootstrap.dataSecretName %s, %s required",
		orNil(is.DataSecretName), orNil(wants.DataSecretName))
	d.add(text, text)
}

// outdated is the message for a template: Machines have objects made from it, without the suffix.
func outdated(kind string) string {
	return strings.TrimSuffix(kind, clusterv1.TemplateSuffix) + " is not up-to-date"
}

func orNil(s *string) string {
	if s == nil {
		return "nil"
	}
	return *s
}

// Assignment says which MachineSet of a group is the new one.
type Assignment struct {
	// New is the MachineSet of the current template; nil if it must be created.
	New *clusterv1.MachineSet
	// Old are all others: first those of other templates, each part by replicas (most first), age
	// and name.
	Old []*clusterv1.MachineSet
	// Eligible are the names of those in Old that an update in place could lead to the current
	// template.
	Eligible map[string]bool
	// Missing says why New is nil.
	Missing string
}

// Assign finds the MachineSet of the MachineDeployment's template. If several match, the one with
// most replicas wins, then the oldest. If spec.rollout.after has passed, only MachineSets that were
// created since then match. A MachineSet in deletion is never New: Machines that move there would
// be deleted with it. A MachineSet that matches and is not New is never updated in place, and
// neither is one from before rollout.after.
func Assign(
	md *clusterv1.MachineDeployment,
	sets []*clusterv1.MachineSet,
	now time.Time,
) Assignment {
	if len(sets) == 0 {
		return Assignment{Missing: "no MachineSets exist for the MachineDeployment"}
	}
	a := Assignment{Eligible: map[string]bool{}}
	matching := a.addOld(md, sets, now)
	if len(matching) == 0 {
		return a
	}
	a.Missing = ""
	after := md.Spec.Rollout.After.Time
	waits := after.IsZero() || now.Before(after)
	for _, set := range matching {
		fresh := waits || !set.CreationTimestamp.Time.Before(after)
		if a.New == nil && fresh && set.DeletionTimestamp.IsZero() {
			a.New = set
		} else {
			a.Old = append(a.Old, set)
		}
	}
	switch {
	case a.New != nil:
	case waits:
		a.Missing = "the MachineSet matching MachineDeployment spec template is being deleted"
	default:
		a.Missing = fmt.Sprintf("spec.rollout.after on MachineDeployment set to %s, "+
			"no MachineSet has been created afterwards", after.Format(time.RFC3339))
	}
	return a
}

// addOld adds the MachineSets whose template differs, and why none would match. It returns those
// that match.
func (a *Assignment) addOld(
	md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet, now time.Time,
) (matching []*clusterv1.MachineSet) {
	after := md.Spec.Rollout.After.Time
	expired := !after.IsZero() && after.Before(now)
	var why []string
	for _, set := range slices.SortedFunc(slices.Values(sets), mostReplicasFirst) {
		d := Differences(&set.Spec.Template, &md.Spec.Template)
		if len(d.Fields) == 0 {
			matching = append(matching, set)
			continue
		}
		a.Old = append(a.Old, set)
		a.Eligible[set.Name] = true
		if expired && set.CreationTimestamp.Time.Before(after) {
			a.Eligible[set.Name] = false
			d.Fields = append(d.Fields, "MachineDeployment spec.rolloutAfter expired")
		}
		why = append(why, fmt.Sprintf("MachineSet %s needs rollout: %s",
			set.Name, strings.Join(d.Fields, ", ")))
	}
	a.Missing = "couldn't find MachineSet matching MachineDeployment spec template: " +
		strings.Join(why, "; ")
	return matching
}

// mostReplicasFirst sorts MachineSets by replicas, then by age and name. spec.replicas must be set.
func mostReplicasFirst(a, b *clusterv1.MachineSet) int {
	return cmp.Or(int(deref(b.Spec.Replicas))-int(deref(a.Spec.Replicas)), byAge(a, b))
}

// byAge sorts MachineSets from the oldest to the newest, then by name.
func byAge(a, b *clusterv1.MachineSet) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}
