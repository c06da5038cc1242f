package policy

import (
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/labelselector"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxProblems bounds how many problems an InvalidError names: enough to fix an object in one go, few enough to read.
const maxProblems = 5

// maxProblemBytes bounds each of them.
const maxProblemBytes = 1024

// maxOrderLabels is that of the API server's rule for order.labels.
const maxOrderLabels = 4

// InvalidError says which fields of an UpdatePolicy or Updater do not parse or contradict each other.
type InvalidError struct {
	// Kind is UpdatePolicy or Updater, and Name its name, with the namespace where it has one.
	Kind, Name string
	// Problems is never empty and in the order of the spec.
	Problems field.ErrorList
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %q cannot be used: %s", e.Kind, e.Name, e.Detail())
}

// Detail returns the problems without the name of the object.
func (e *InvalidError) Detail() string {
	texts := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		texts = append(texts, text.Bound(p.Error(), maxProblemBytes))
	}
	return text.JoinSome(texts, maxProblems, "; ")
}

// pointerPattern is that of the API server's rule for ignorePaths.
var pointerPattern = regexp.MustCompile(`^/spec(/([^~/]|~[01])+)+$`)

// Check returns nil or an *InvalidError; see [Compile].
func Check(p *v1alpha1.UpdatePolicy) error {
	if c := Compile(p); c.Invalid != nil {
		return c.Invalid
	}
	return nil
}

// check returns what is wrong with the policy that was compiled. The API server refuses most of what is refused here, except
// selectors that do not parse; policies that are read from files have not passed its rules.
func (c *Compiled) check(p *v1alpha1.UpdatePolicy, last labelselector.Selector) *InvalidError {
	var problems field.ErrorList
	root := field.NewPath("spec")
	if len(p.Spec.Targets) == 0 {
		problems = append(problems, field.Required(root.Child("targets"), "say which groups of machines the policy is for"))
	}
	for i := range c.targets {
		problems = append(problems, checkTarget(root.Child("targets").Index(i), p.Spec.Targets[i], c.targets[i])...)
	}
	problems = append(problems, checkChoices(root, p.Spec)...)
	problems = append(problems, checkRollout(root, p.Spec.RolloutLimits, last)...)
	if p.Spec.MaxFailures > 0 && p.Spec.OnFailure != v1alpha1.FailurePause {
		problems = append(problems, field.Forbidden(root.Child("maxFailures"), "maxFailures goes with onFailure Pause only"))
	}
	problems = append(problems, checkNumbers(root, p.Spec)...)
	for i, ignore := range p.Spec.IgnorePaths {
		problems = append(problems, checkIgnore(root.Child("ignorePaths").Index(i), ignore)...)
	}
	if len(problems) == 0 {
		return nil
	}
	return &InvalidError{Kind: "UpdatePolicy", Name: join(p.Namespace, p.Name), Problems: problems}
}

func checkTarget(path *field.Path, t v1alpha1.UpdateTarget, compiled target) field.ErrorList {
	var problems field.ErrorList
	if t.ClusterName != "" && t.ClusterSelector != nil {
		problems = append(problems, field.Forbidden(path.Child("clusterSelector"), "set clusterName or clusterSelector, not both"))
	}
	problems = append(problems, checkSelector(path.Child("clusterSelector"), compiled.clusterSelector)...)
	return append(problems, checkSelector(path.Child("selector"), compiled.selector)...)
}

func checkChoices(path *field.Path, spec v1alpha1.UpdatePolicySpec) field.ErrorList {
	var problems field.ErrorList
	strategies := []v1alpha1.UpdateStrategy{v1alpha1.ExternalUpdate, v1alpha1.RollingUpdate}
	if !slices.Contains(strategies, spec.Strategy) {
		problems = append(problems, field.NotSupported(path.Child("strategy"), spec.Strategy, strategies))
	}
	fallbacks := []v1alpha1.UpdateFallback{v1alpha1.FallbackRollingUpdate, v1alpha1.FallbackNone}
	switch {
	case spec.Fallback == "":
	case !slices.Contains(fallbacks, spec.Fallback):
		problems = append(problems, field.NotSupported(path.Child("fallback"), spec.Fallback, fallbacks))
	case spec.Strategy == v1alpha1.RollingUpdate:
		problems = append(problems, field.Forbidden(path.Child("fallback"), "fallback goes with strategy ExternalUpdate only: with RollingUpdate machines are always replaced"))
	}
	actions := []v1alpha1.UpdateFailureAction{v1alpha1.FailureWait, v1alpha1.FailureRemediate, v1alpha1.FailurePause}
	if spec.OnFailure != "" && !slices.Contains(actions, spec.OnFailure) {
		problems = append(problems, field.NotSupported(path.Child("onFailure"), spec.OnFailure, actions))
	}
	switch on := []v1alpha1.OnDeleteAction{v1alpha1.OnDeleteWait, v1alpha1.OnDeleteInPlace}; {
	case spec.OnDelete == "":
	case !slices.Contains(on, spec.OnDelete):
		problems = append(problems, field.NotSupported(path.Child("onDelete"), spec.OnDelete, on))
	case spec.Strategy != v1alpha1.ExternalUpdate:
		problems = append(problems, field.Forbidden(path.Child("onDelete"), "onDelete goes with strategy ExternalUpdate only"))
	}
	problems = append(problems, checkHandOver(path.Child("handOver"), spec)...)
	return append(problems, checkPrefetch(path.Child("prefetch"), spec)...)
}

func checkPrefetch(path *field.Path, spec v1alpha1.UpdatePolicySpec) field.ErrorList {
	most := spec.Prefetch.MaxInFlight
	switch {
	case most == 0:
		return nil
	case most < 0:
		return field.ErrorList{field.Invalid(path.Child("maxInFlight"), most, "must be at least 1")}
	case spec.Strategy != v1alpha1.ExternalUpdate:
		return field.ErrorList{field.Forbidden(path, "prefetch goes with strategy ExternalUpdate only")}
	case spec.HandOver == v1alpha1.HandOverGroup:
		return field.ErrorList{field.Forbidden(path, "prefetch goes without handOver Group")}
	}
	return nil
}

// checkHandOver checks that nothing is asked of Windlass that an updater does which has a whole group.
func checkHandOver(path *field.Path, spec v1alpha1.UpdatePolicySpec) field.ErrorList {
	units := []v1alpha1.HandOverUnit{v1alpha1.HandOverMachine, v1alpha1.HandOverGroup}
	switch {
	case spec.HandOver == "":
		return nil
	case !slices.Contains(units, spec.HandOver):
		return field.ErrorList{field.NotSupported(path, spec.HandOver, units)}
	case spec.Strategy != v1alpha1.ExternalUpdate:
		return field.ErrorList{field.Forbidden(path, "handOver goes with strategy ExternalUpdate only")}
	case spec.HandOver == v1alpha1.HandOverMachine:
		return nil
	}
	var problems field.ErrorList
	for _, other := range []struct {
		name string
		set  bool
	}{
		{"drain", spec.Drain}, {"batches", len(spec.Batches) > 0},
		{"order", len(spec.Order.Labels) > 0 || spec.Order.OneAtATime || spec.Order.Last != nil},
		{"ignorePaths", len(spec.IgnorePaths) > 0},
		{"soakSeconds", spec.SoakSeconds > 0}, {"machineDeadlineSeconds", spec.MachineDeadlineSeconds > 0},
		{"onDelete InPlace", spec.OnDelete == v1alpha1.OnDeleteInPlace},
		{"onFailure Remediate", spec.OnFailure == v1alpha1.FailureRemediate},
	} {
		if other.set {
			problems = append(problems, field.Forbidden(path, "handOver Group goes without "+other.name))
		}
	}
	return problems
}

// CheckRollout returns what is wrong with limits of rollouts, in the order of their fields.
func CheckRollout(path *field.Path, l v1alpha1.RolloutLimits) field.ErrorList {
	return checkRollout(path, l, labelselector.Parse(l.Order.Last))
}

func checkRollout(
	path *field.Path, l v1alpha1.RolloutLimits, last labelselector.Selector,
) field.ErrorList {
	problems := checkShare(path.Child("canary"), l.Canary, 0)
	for i := range l.Batches {
		batch := path.Child("batches").Index(i)
		problems = append(problems, checkShare(batch, &l.Batches[i], 1)...)
	}
	problems = append(problems, checkShare(path.Child("partition"), l.Partition, 0)...)
	return append(problems, checkOrder(path.Child("order"), l.Order, last)...)
}

func checkOrder(path *field.Path, order v1alpha1.UpdateOrder, last labelselector.Selector) field.ErrorList {
	var problems field.ErrorList
	if len(order.Labels) > maxOrderLabels {
		problems = append(problems, field.TooMany(path.Child("labels"), len(order.Labels), maxOrderLabels))
	}
	for i, key := range order.Labels[:min(len(order.Labels), maxOrderLabels)] {
		for _, fault := range validation.IsQualifiedName(key) {
			problems = append(problems, field.Invalid(path.Child("labels").Index(i), key, fault))
		}
	}
	if order.OneAtATime && len(order.Labels) == 0 {
		problems = append(problems, field.Forbidden(path.Child("oneAtATime"), "oneAtATime needs labels"))
	}
	return append(problems, checkSelector(path.Child("last"), last)...)
}

func checkNumbers(path *field.Path, spec v1alpha1.UpdatePolicySpec) field.ErrorList {
	var problems field.ErrorList
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"maxInFlight", spec.MaxInFlight}, {"soakSeconds", spec.SoakSeconds}, {"maxAttempts", spec.MaxAttempts}, {"attemptTimeoutSeconds", spec.AttemptTimeoutSeconds},
		{"maxFailures", spec.MaxFailures}, {"machineDeadlineSeconds", spec.MachineDeadlineSeconds}, {"groupDeadlineSeconds", spec.GroupDeadlineSeconds},
	} {
		if n.value < 0 {
			problems = append(problems, field.Invalid(path.Child(n.name), n.value, "must not be negative"))
		}
	}
	return problems
}

// sharePattern is that of the API server's rule for percentages.
var sharePattern = regexp.MustCompile(`^(100|[1-9]?[0-9])%$`)

// checkShare returns what is wrong with a number of machines or a percentage of them. least is the
// least of either; nil is in order.
func checkShare(path *field.Path, share *intstr.IntOrString, least int32) field.ErrorList {
	switch {
	case share == nil:
	case share.Type == intstr.Int && share.IntVal < least:
		return field.ErrorList{field.Invalid(path, share.IntVal, fmt.Sprintf("must be at least %d", least))}
	case share.Type == intstr.String && (!sharePattern.MatchString(share.StrVal) || least > 0 && share.StrVal == "0%"):
		return field.ErrorList{field.Invalid(path, share.StrVal, fmt.Sprintf("must be a number or a percentage between %d%% and 100%%", least))}
	}
	return nil
}

func checkIgnore(path *field.Path, ignore v1alpha1.IgnorePath) field.ErrorList {
	var problems field.ErrorList
	objects := []v1alpha1.IgnoreObject{v1alpha1.IgnoreMachine, v1alpha1.IgnoreInfrastructure, v1alpha1.IgnoreBootstrap}
	if !slices.Contains(objects, ignore.Object) {
		problems = append(problems, field.NotSupported(path.Child("object"), ignore.Object, objects))
	}
	switch {
	case !pointerPattern.MatchString(ignore.Path):
		problems = append(problems, field.Invalid(path.Child("path"), ignore.Path,
			"must be a JSON pointer to a field below /spec, such as /spec/image; a ~ in a name is written ~0, a / is written ~1"))
	case ignore.Object == v1alpha1.IgnoreMachine && ignore.Path == "/spec/version":
		problems = append(problems, field.Forbidden(path.Child("path"), "the Kubernetes version of a Machine cannot be ignored: an update is done when the node runs that version"))
	}
	return problems
}

// CheckSelector returns why a selector cannot be used.
func CheckSelector(path *field.Path, s *metav1.LabelSelector) field.ErrorList {
	return checkSelector(path, labelselector.Parse(s))
}

func checkSelector(path *field.Path, s labelselector.Selector) field.ErrorList {
	if err := s.Err(); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}
