package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// planInput is what the flags say, parsed.
type planInput struct {
	// from and to are zero when not given.
	from, to version.Version
	// versions is nil when not given.
	versions plan.VersionList
	// groups have a zero Version and an empty Kind where the flag said nothing.
	groups []plan.Group
	// unnamed says that the groups come from --workers-from.
	unnamed   bool
	noWorkers bool
	policy    plan.Policy
	format    view.Format
	explain   bool
}

// parse parses every flag. On an error the input still has the format, if that much could be parsed, so that the
// error is shown in it. The function given reports whether a flag was given at all.
func (o *planOptions) parse(given func(flag string) bool) (planInput, error) {
	in := planInput{format: view.Table, noWorkers: o.noWorkers, explain: o.explain}
	var err error
	if in.format, err = view.ParseFormat(o.output, view.Formats()); err != nil {
		return planInput{format: view.Table}, wrapInput("--output", err)
	}
	if in.policy, err = o.parsePolicy(); err != nil {
		return in, err
	}
	if in.from, err = parseVersionFlag("from", o.from, given); err != nil {
		return in, err
	}
	if in.to, err = parseVersionFlag("to", o.to, given); err != nil {
		return in, err
	}
	if in.versions, err = parseVersionsFlag(o.versions); err != nil {
		return in, err
	}
	in.groups, in.unnamed, err = o.parseWorkers()
	return in, err
}

// parseWorkers parses the flags about workers, of which only some go together. It also reports whether the groups have no
// names of their own.
func (o *planOptions) parseWorkers() (groups []plan.Group, unnamed bool, err error) {
	switch {
	case len(o.files) > 0 && o.noWorkers:
		return nil, false, inputErrorf("--no-workers", "it cannot be used together with -f; the Cluster there says which workers there are")
	case len(o.files) > 0 && len(o.workersFrom) > 0:
		return nil, false, inputErrorf("--workers-from", "it cannot be used together with -f; use --group NAME=VERSION for a group of the Cluster there")
	case len(o.groups) > 0 && len(o.workersFrom) > 0:
		return nil, false, inputErrorf("--workers-from", "it cannot be used together with --group; give each group its version there")
	case o.noWorkers && len(o.groups)+len(o.workersFrom) > 0:
		return nil, false, inputErrorf("--no-workers", "it cannot be used together with --group or --workers-from")
	case len(o.workersFrom) > 0:
		groups, err = parseWorkersFrom(o.workersFrom)
		return groups, true, err
	default:
		groups, err = parseGroups(o.groups)
		return groups, false, err
	}
}

func (o *planOptions) parsePolicy() (plan.Policy, error) {
	skew, err := version.FindSkewPolicy(o.skewPolicy)
	if err != nil {
		return plan.Policy{}, wrapInput("--skew-policy", err)
	}
	policy := plan.Policy{Skew: skew}
	switch o.engine {
	case engineStock:
		policy.Workers = plan.WorkersShared
	case engineWindlass:
		policy.Workers = plan.WorkersPerGroup
	default:
		return plan.Policy{}, inputErrorf("--engine", "unknown engine %q: choose one of %q", o.engine, engineNames())
	}
	return policy, nil
}

// parseVersionFlag returns the zero Version for a flag that was not given. An empty value is refused: most often it is a
// variable that a script did not set, and taking it for "not given" would plan something else than was meant.
func parseVersionFlag(name, value string, given func(flag string) bool) (version.Version, error) {
	if !given(name) {
		return version.Version{}, nil
	}
	if value == "" {
		return version.Version{}, inputErrorf("--"+name, "it is empty")
	}
	v, err := version.Parse(value)
	if err != nil {
		return version.Version{}, wrapInput("--"+name, err)
	}
	return v, nil
}

func parseVersionsFlag(values []string) (plan.VersionList, error) {
	if values == nil {
		return nil, nil
	}
	if len(values) == 0 {
		return nil, inputErrorf("--versions", "it is empty")
	}
	trimmed := make([]string, 0, len(values))
	for _, v := range values {
		trimmed = append(trimmed, strings.TrimSpace(v))
	}
	list, err := version.ParseList(trimmed)
	if item, ok := errors.AsType[*version.ItemError](err); ok {
		return nil, inputErrorf("--versions", "item %d: %w", item.Index+1, item.Err)
	}
	return list, err
}

// parseWorkersFrom makes a group of each version. They get names of their own because a plan needs them.
func parseWorkersFrom(values []string) ([]plan.Group, error) {
	groups := make([]plan.Group, 0, len(values))
	for i, value := range values {
		v, err := version.Parse(value)
		if err != nil {
			return nil, wrapInput("--workers-from", err)
		}
		name := assumedGroup
		if len(values) > 1 {
			name += "-" + strconv.Itoa(i+1)
		}
		groups = append(groups, plan.Group{Name: name, Version: v})
	}
	return groups, nil
}

func parseGroups(values []string) ([]plan.Group, error) {
	groups := make([]plan.Group, 0, len(values))
	names := map[string]bool{}
	for _, value := range values {
		g, err := parseGroup(value)
		if err != nil {
			return nil, err
		}
		if names[g.Name] {
			return nil, groupError(value, fmt.Errorf("the group %q was given before", g.Name))
		}
		names[g.Name] = true
		groups = append(groups, g)
	}
	return groups, nil
}

// parseGroup parses NAME[=VERSION][,maxMinorStep=N][,kind=KIND].
func parseGroup(value string) (plan.Group, error) {
	head, options, _ := strings.Cut(value, ",")
	name, text, hasVersion := strings.Cut(head, "=")
	g := plan.Group{Name: strings.TrimSpace(name)}
	if g.Name == "" {
		return plan.Group{}, groupError(value, errors.New("the name is missing; write NAME=VERSION, such as pool-a=v1.29.0"))
	}
	if hasVersion {
		v, err := version.Parse(strings.TrimSpace(text))
		if err != nil {
			return plan.Group{}, groupError(value, err)
		}
		g.Version = v
	}
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if err := parseGroupOption(&g, strings.TrimSpace(option)); err != nil {
			return plan.Group{}, groupError(value, err)
		}
	}
	return g, nil
}

func parseGroupOption(g *plan.Group, option string) error {
	key, value, _ := strings.Cut(option, "=")
	switch key {
	case "maxMinorStep":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("maxMinorStep is %q and must be a number from 1 up; leave it out for any legal jump", value)
		}
		g.MaxMinorStep = uint32(n)
	case "kind":
		g.Kind = plan.GroupKind(value)
		if g.Kind != plan.MachineDeployment && g.Kind != plan.MachinePool {
			return fmt.Errorf("kind is %q and must be MachineDeployment or MachinePool", value)
		}
	default:
		return fmt.Errorf("unknown option %q: there are maxMinorStep=N and kind=KIND", key)
	}
	return nil
}

func groupError(value string, err error) error {
	return wrapInput(fmt.Sprintf("--group %q", value), err)
}
