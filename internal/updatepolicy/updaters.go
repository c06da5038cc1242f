package updatepolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/labelselector"
	"github.com/windlass-dev/windlass/internal/policy"
)

// CheckUpdater returns nil or an *policy.InvalidError. It looks at what the API server does not: selectors that do not parse, and, for
// Updaters that are read from files, that exactly one kind is set.
func CheckUpdater(u *v1alpha1.Updater) error {
	var problems field.ErrorList
	root := field.NewPath("spec")
	switch {
	case (u.Spec.InProcess == nil) == (u.Spec.Remote == nil):
		problems = append(problems, field.Required(root, "set exactly one of inProcess and remote"))
	case u.Spec.InProcess != nil && (u.Spec.InProcess.Kind == v1alpha1.K8sdUpdater) != (u.Spec.InProcess.K8sd != nil):
		problems = append(problems, field.Required(root.Child("inProcess"), "set k8sd where kind is K8sd, and only there"))
	case u.Spec.InProcess != nil && u.Spec.InProcess.Kind.ForHosts() != (u.Spec.InProcess.Host != nil):
		problems = append(problems, field.Required(root.Child("inProcess"), "set host where kind is Kubeadm, RKE2 or K3s, and only there"))
	case u.Spec.Remote != nil && (u.Spec.Remote.URL == "") == (u.Spec.Remote.Service == nil):
		problems = append(problems, field.Required(root.Child("remote"), "set exactly one of url and service"))
	}
	if u.Spec.InProcess != nil && u.Spec.InProcess.Host != nil {
		problems = append(problems, checkHost(root.Child("inProcess", "host"), u.Spec.InProcess.Host)...)
	}
	problems = append(problems, policy.CheckSelector(root.Child("namespaceSelector"), u.Spec.NamespaceSelector)...)
	problems = append(problems, policy.CheckSelector(root.Child("selector"), u.Spec.Selector)...)
	if len(problems) == 0 {
		return nil
	}
	return &policy.InvalidError{Kind: "Updater", Name: u.Name, Problems: problems}
}

// SelectUpdaters returns the updaters for machines with these labels, in a namespace with these, in the order in which they are
// asked and run: by spec.order, then by name. What it returns is shared with the list.
//
// The error is an *policy.InvalidError where an Updater cannot be used that may be meant for the machines: without it a change would
// count as not covered, and the machines might be replaced.
func SelectUpdaters(updaters []v1alpha1.Updater, namespaceLabels, machineLabels map[string]string) ([]v1alpha1.Updater, error) {
	var selected []v1alpha1.Updater
	for _, u := range updaters {
		if labelselector.Parse(u.Spec.NamespaceSelector).MayMatch(namespaceLabels) && labelselector.Parse(u.Spec.Selector).MayMatch(machineLabels) {
			selected = append(selected, u)
		}
	}
	slices.SortFunc(selected, func(a, b v1alpha1.Updater) int {
		return cmp.Or(cmp.Compare(a.Spec.Order, b.Spec.Order), strings.Compare(a.Name, b.Name))
	})
	for i := range selected {
		if err := CheckUpdater(&selected[i]); err != nil {
			return nil, err
		}
	}
	return selected, nil
}

// MaxMinors returns how many minors an updater moves a kubelet at once; 0 means any number. Linux hosts go through each minor, whatever their updater's
// spec.transitions says.
func MaxMinors(u *v1alpha1.Updater) int {
	if u.Spec.InProcess != nil && u.Spec.InProcess.Kind.ForHosts() {
		return 1
	}
	return int(u.Spec.Transitions.MaxMinors)
}

// MinorLimit returns how many minors the kubelets of machines with these updaters can move at once; 0 means any number. It is
// the largest MaxMinors, because one updater that can move further may cover the change of version by
// itself; an updater without a limit, or no updater at all, sets none. Whether the updater with the largest limit covers
// the version is not known here: the decision on the change finds that out, and says so.
func MinorLimit(updaters []v1alpha1.Updater) int {
	limit := 0
	for i := range updaters {
		most := MaxMinors(&updaters[i])
		if most <= 0 {
			return 0
		}
		limit = max(limit, most)
	}
	return limit
}

// FailsOpen reports whether an updater that cannot be asked counts as covering nothing.
func FailsOpen(u *v1alpha1.Updater) bool {
	return u.Spec.Remote != nil && u.Spec.Remote.FailurePolicy == v1alpha1.UpdaterIgnore
}

// NotServedError reports that an Updater may not change a Machine.
type NotServedError struct {
	// Updater is the name of the Updater, and Reason says what excludes the Machine.
	Updater, Reason string
}

// Error names the Updater and the reason.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("Updater %q may not change this Machine: %s. Fix: have an Updater of this name that selects the Machine, or give the update up", e.Updater, e.Reason)
}

// MayServe returns nil if an Updater may change a Machine with machineLabels in a namespace with namespaceLabels. selected is the UpdatePolicy that counts
// for the Machine's group; the zero value and Default stand for none, which excludes no Updater.
//
// Records on a Machine name Updaters, and its owner can write them. Call MayServe before each request to an Updater whose name was read from a record.
//
// The error is an *policy.InvalidError if the Updater cannot be used, and a *NotServedError if a selector or the policy excludes the Machine. Unlike
// SelectUpdaters, MayServe takes a selector that does not parse for one that matches nothing.
func MayServe(u *v1alpha1.Updater, selected policy.Policy, namespaceLabels, machineLabels map[string]string) error {
	if err := CheckUpdater(u); err != nil {
		return err
	}
	switch {
	case !labelselector.Parse(u.Spec.NamespaceSelector).MayMatch(namespaceLabels):
		return &NotServedError{Updater: u.Name, Reason: "its spec.namespaceSelector does not select the namespace"}
	case !labelselector.Parse(u.Spec.Selector).MayMatch(machineLabels):
		return &NotServedError{Updater: u.Name, Reason: "its spec.selector does not select the Machine"}
	case selected.Name != "" && !selected.InPlace:
		return &NotServedError{Updater: u.Name, Reason: fmt.Sprintf("UpdatePolicy %q has the strategy RollingUpdate", selected.Name)}
	}
	return nil
}
