package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Asker opens the updater that an object registers. An error says why it cannot be asked from here.
type Asker func(ctx context.Context, updater v1alpha1.Updater) (port.Updater, error)

// Fetcher reads an object that a group's machines are made of, in the namespace of their cluster.
type Fetcher func(ctx context.Context, ref clusterv1.ContractVersionedObjectReference) (map[string]any, error)

// Step is one upgrade of a group.
type Step struct{ From, To version.Version }

// Group is a group with the upgrades that are planned for it.
type Group struct {
	snapshot.UpdateGroup
	Steps []Step
	// Kubeadm says that it is a KubeadmControlPlane, which changes its machines' KubeadmConfigs with some versions.
	Kubeadm bool
	// Machine is one of the control plane's Machines; nil where there is none, and for MachineDeployments.
	Machine *clusterv1.Machine
	// Obstacle says why Cluster API replaces machines of the group without asking; empty where nothing is known to. Doubt says
	// why it cannot be told what happens, however updaters answer. More says what may change besides the version, and so is not
	// asked about; empty where nothing is known to.
	Obstacle, Doubt, More string
}

// Request is what is asked about a cluster.
type Request struct {
	Groups   []Group
	Policies []v1alpha1.UpdatePolicy
	Updaters []v1alpha1.Updater
	// NamespaceLabels are those of the cluster's namespace, if they are known.
	NamespaceLabels      map[string]string
	NamespaceLabelsKnown bool
	Ask                  Asker
	// Fetch may be nil: then templates are empty.
	Fetch Fetcher
	// Engine is v1alpha1.EngineManager; empty with stock Cluster API, or if unknown.
	Engine string
}

// ElsewhereError is the error of an updater that is reached from where the extension runs, and not from here.
type ElsewhereError struct {
	Reason string
	// Err is what came of asking; nil where nobody was.
	Err error
}

func (e *ElsewhereError) Error() string { return "not from this machine: " + e.Reason }
func (e *ElsewhereError) Unwrap() error { return e.Err }

// Preview returns the update of each group, in order. It ends early, with Unknown for the rest, when ctx does.
func Preview(ctx context.Context, r Request) []cover.Update {
	p := &preview{Request: r, policies: policy.CompileAll(r.Policies), opened: map[string]opened{}}
	updates := make([]cover.Update, 0, len(r.Groups))
	for _, g := range r.Groups {
		updates = append(updates, p.group(ctx, g))
	}
	return updates
}

// MinorLimits returns for each group how many minors its machines can be moved at once; 0 means any number. A group whose
// policy or updaters cannot be told has no limit here: its preview says what is wrong.
func MinorLimits(r Request) []int {
	limits, policies := make([]int, 0, len(r.Groups)), policy.CompileAll(r.Policies)
	for _, g := range r.Groups {
		limit := 0
		if selected, err := policies.Select(g.Group); err == nil && selected.InPlace {
			if updaters, err := r.selectUpdaters(g); err == nil {
				limit = updatepolicy.MinorLimit(updaters)
			}
		}
		limits = append(limits, limit)
	}
	return limits
}

func (r Request) selectUpdaters(g Group) ([]v1alpha1.Updater, error) {
	if !r.NamespaceLabelsKnown {
		for _, u := range r.Updaters {
			if u.Spec.NamespaceSelector != nil {
				return nil, fmt.Errorf("the labels of namespace %q are not known, by which Updater %q selects machines", g.Namespace, u.Name)
			}
		}
	}
	return updatepolicy.SelectUpdaters(r.Updaters, r.NamespaceLabels, g.MachineLabels)
}

// preview remembers the updaters, and which of them did not answer in time, so that a timeout is waited for once.
type preview struct {
	Request
	policies policy.Set
	opened   map[string]opened
}

type opened struct {
	updater port.Updater
	err     error
}

func (p *preview) group(ctx context.Context, g Group) cover.Update {
	selected, err := p.policies.Select(g.Group)
	if err != nil {
		return cover.Update{Outcome: cover.Blocked, Message: "blocked: " + err.Error()}
	}
	u := cover.Update{Policy: selected.Name}
	switch {
	case selected.Name == "":
		u.Outcome, u.Message = cover.Replace, "replaced: no UpdatePolicy selects it"
	case !selected.InPlace:
		u.Outcome, u.Message = cover.Replace, fmt.Sprintf("replaced: as UpdatePolicy %q says", selected.Name)
	case g.Obstacle != "":
		u.Outcome, u.Message = cover.Replace, "replaced: "+g.Obstacle
		if selected.Guarded {
			u.Outcome, u.Message = cover.Blocked, "blocked: "+g.Obstacle
		}
	default:
		p.inPlace(ctx, g, selected, &u)
		switch {
		case u.Outcome != cover.InPlace:
		case g.Doubt != "":
			u.Outcome, u.Message = cover.Unknown, fmt.Sprintf("unknown: %s, but %s", u.Message, g.Doubt)
		case g.More != "" && len(u.Updaters) > 0:
			u.Outcome, u.Message = cover.Unknown, fmt.Sprintf("version: %s; other changes not known: %s", u.Message, g.More)
		}
	}
	return p.addLimits(u, g, selected)
}

// addLimits adds what windlass manager bounds the rollout by, if it does.
func (p *preview) addLimits(u cover.Update, g Group, selected policy.Policy) cover.Update {
	if selected.Name == "" || p.Engine != v1alpha1.EngineManager || g.ControlPlane {
		return u
	}
	u.Limits = new(pool.Limits(selected).Fields())
	if limits := u.Limits.Describe(); limits != "" {
		u.Message += " (" + limits + ")"
	}
	return u
}

// inPlace asks about each step of a group; the first that is not covered decides.
func (p *preview) inPlace(ctx context.Context, g Group, selected policy.Policy, u *cover.Update) {
	updaters, err := p.selectUpdaters(g)
	if err != nil {
		u.Outcome, u.Message = cover.Unknown, "unknown: "+err.Error()
		if _, invalid := errors.AsType[*policy.InvalidError](err); invalid {
			u.Outcome, u.Message = cover.Blocked, "blocked: "+err.Error()
		}
		return
	}
	if len(g.Steps) == 0 {
		u.Outcome, u.Message = cover.InPlace, "in place: nothing to do in this plan"
		return
	}
	var ways, warnings []string
	for _, step := range g.Steps {
		result, err := p.step(ctx, g, selected, updaters, step)
		if err != nil {
			u.Outcome, u.Updaters, u.Message = cover.Unknown, nil, fmt.Sprintf("unknown: %v", err)
			return
		}
		if len(result.Uncovered) > 0 {
			u.Outcome, u.Updaters, u.Uncovered = cover.Replace, nil, result.Uncovered
			verb := "replace"
			if selected.Guarded {
				u.Outcome, verb = cover.Blocked, "blocked"
			}
			u.Message = verb + ": " + p.whyUncovered(g, updaters, result, step)
			return
		}
		var names []string
		for _, c := range result.Plan {
			names = append(names, c.Updater)
		}
		u.Updaters = addNew(u.Updaters, names...)
		ways = addNew(ways, strings.Join(names, ", then "))
		warnings = addNew(warnings, result.Warnings...)
	}
	message := append([]string{"in place by " + strings.Join(ways, "; or by ")}, warnings...)
	u.Outcome, u.Message = cover.InPlace, strings.Join(message, "; ")
}

// addNew appends what a list does not have.
func addNew(list []string, more ...string) []string {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// whyUncovered says why a step is not covered, in as few words as will do.
func (p *preview) whyUncovered(g Group, updaters []v1alpha1.Updater, result cover.Result, step Step) string {
	switch {
	case len(p.Updaters) == 0:
		return "no Updater is registered"
	case len(updaters) == 0:
		return "no Updater is for its machines"
	default:
		machine := cover.PartMachine
		if !g.ControlPlane {
			machine = "MachineSet"
		}
		return fmt.Sprintf("not covered: %s%s", result.DescribeUncovered(machine), at(g, step))
	}
}

// at names a step where there are several.
func at(g Group, step Step) string {
	if len(g.Steps) == 1 {
		return ""
	}
	return fmt.Sprintf(" (%s -> %s)", step.From, step.To)
}

// step asks all updaters in turn about one step; each sees what those before it cover. The error says which one cannot be
// asked.
func (p *preview) step(ctx context.Context, g Group, selected policy.Policy, updaters []v1alpha1.Updater, step Step) (cover.Result, error) {
	q, err := p.question(ctx, g, step)
	if err != nil {
		return cover.Result{}, err
	}
	coverage, err := cover.New(q.scope, q.current, q.desired, cover.IgnoreOf(selected.Ignore))
	if err != nil {
		return cover.Result{}, fmt.Errorf("comparing the machines before and after: %w", err)
	}
	asked, err := engine.AskAll(ctx, coverage, updaters, func(*v1alpha1.Updater) bool { return false },
		func(ctx context.Context, u *v1alpha1.Updater, current cover.Objects) (cover.Patches, error) {
			return p.ask(ctx, u, q, current)
		})
	if problem, ok := errors.AsType[*engine.QuestionError](err); ok {
		if elsewhere, ok := errors.AsType[*ElsewhereError](err); ok {
			return cover.Result{}, fmt.Errorf("updater %q cannot be asked from this machine: %s", problem.Updater, elsewhere.Reason)
		}
	}
	if err != nil {
		return cover.Result{}, err
	}
	return asked.Result(), nil
}

func (p *preview) ask(ctx context.Context, u *v1alpha1.Updater, q question, current cover.Objects) (cover.Patches, error) {
	known, ok := p.opened[u.Name]
	if !ok {
		known.updater, known.err = p.Ask(ctx, *u)
		p.opened[u.Name] = known
	}
	if known.err != nil {
		return cover.Patches{}, known.err
	}
	patches, err := engine.CanUpdate(ctx, known.updater, q.scope, current, q.desired, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		p.opened[u.Name] = opened{err: err}
	}
	return patches, err
}
