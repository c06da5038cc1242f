package updatepolicy

import (
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxProblems bounds how many problems an InvalidError names: enough to fix an object in one go, few enough to read.
const maxProblems = 5

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
		texts = append(texts, p.Error())
	}
	return text.JoinSome(texts, maxProblems, "; ")
}

// pointerPattern is that of the API server's rule for ignorePaths.
var pointerPattern = regexp.MustCompile(`^/spec(/([^~/]|~[01])+)+$`)

// Check returns nil or an *InvalidError. The API server refuses most of what is refused here, except selectors that do not
// parse; policies that are read from files have not passed its rules.
func Check(p *v1alpha1.UpdatePolicy) error {
	var problems field.ErrorList
	root := field.NewPath("spec")
	if len(p.Spec.Targets) == 0 {
		problems = append(problems, field.Required(root.Child("targets"), "say which groups of machines the policy is for"))
	}
	for i, t := range p.Spec.Targets {
		problems = append(problems, checkTarget(root.Child("targets").Index(i), t)...)
	}
	problems = append(problems, checkChoices(root, p.Spec)...)
	problems = append(problems, checkNumbers(root, p.Spec)...)
	for i, ignore := range p.Spec.IgnorePaths {
		problems = append(problems, checkIgnore(root.Child("ignorePaths").Index(i), ignore)...)
	}
	if len(problems) == 0 {
		return nil
	}
	return &InvalidError{Kind: "UpdatePolicy", Name: join(p.Namespace, p.Name), Problems: problems}
}

func checkTarget(path *field.Path, t v1alpha1.UpdateTarget) field.ErrorList {
	var problems field.ErrorList
	if t.ClusterName != "" && t.ClusterSelector != nil {
		problems = append(problems, field.Forbidden(path.Child("clusterSelector"), "set clusterName or clusterSelector, not both"))
	}
	problems = append(problems, checkSelector(path.Child("clusterSelector"), t.ClusterSelector)...)
	return append(problems, checkSelector(path.Child("selector"), t.Selector)...)
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
	problems = append(problems, CheckOrder(path.Child("order"), spec.Order)...)
	if spec.MaxFailures > 0 && spec.OnFailure != v1alpha1.FailurePause {
		problems = append(problems, field.Forbidden(path.Child("maxFailures"), "maxFailures goes with onFailure Pause only"))
	}
	return problems
}

// CheckOrder returns what is wrong with the order of a policy.
func CheckOrder(path *field.Path, order v1alpha1.UpdateOrder) field.ErrorList {
	var problems field.ErrorList
	if len(order.Labels) > maxOrderLabels {
		problems = append(problems, field.TooMany(path.Child("labels"), len(order.Labels), maxOrderLabels))
	}
	for i, key := range order.Labels {
		for _, fault := range validation.IsQualifiedName(key) {
			problems = append(problems, field.Invalid(path.Child("labels").Index(i), key, fault))
		}
	}
	if order.OneAtATime && len(order.Labels) == 0 {
		problems = append(problems, field.Forbidden(path.Child("oneAtATime"), "oneAtATime needs labels"))
	}
	return append(problems, checkSelector(path.Child("last"), order.Last)...)
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
	problems = append(problems, CheckShare(path.Child("canary"), spec.Canary, 0)...)
	for i := range spec.Batches {
		problems = append(problems, CheckShare(path.Child("batches").Index(i), &spec.Batches[i], 1)...)
	}
	return append(problems, CheckShare(path.Child("partition"), spec.Partition, 0)...)
}

// sharePattern is that of the API server's rule for percentages.
var sharePattern = regexp.MustCompile(`^(100|[1-9]?[0-9])%$`)

// CheckShare returns what is wrong with a number of machines or a percentage of them. least is the
// least of either; nil is in order.
func CheckShare(path *field.Path, share *intstr.IntOrString, least int32) field.ErrorList {
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

func checkSelector(path *field.Path, s *metav1.LabelSelector) field.ErrorList {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}

// isEmpty reports whether a selector leaves nothing out.
func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// mayMatch reports whether a selector matches; one that does not parse might. An unset one matches everything.
func mayMatch(s *metav1.LabelSelector, set map[string]string) bool {
	if isEmpty(s) {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err != nil || selector.Matches(labels.Set(set))
}
