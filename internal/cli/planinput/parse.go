package planinput

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Input is what the flags say, parsed.
type Input struct {
	// From and to are zero when not given.
	From, To version.Version
	// Versions is nil when not given.
	Versions plan.VersionList
	// Groups have a zero Version and an empty Kind where the flag said nothing.
	Groups []plan.Group
	// unnamed says that the groups come from --workers-from.
	unnamed   bool
	noWorkers bool
	Policy    plan.Policy
	// FindEngine has the engine that drives a live Cluster decide about Policy.Workers.
	FindEngine bool
	// OnPaper plans Clusters without a topology, too.
	OnPaper bool
	Format  view.Format
	Explain bool
	// Risks are the known risks; nil means those of this release.
	Risks *risks.Set
	// Accepted are names of findings about settings that are left out; see package settings.
	Accepted []string
}

// knownRisks returns Risks, or those of this release.
func (in Input) knownRisks() *risks.Set {
	if in.Risks == nil {
		return risks.BuiltIn()
	}
	return in.Risks
}

// parseVersionFlag returns the zero Version for a flag that was not given. An empty value is refused: most often it is a
// variable that a script did not set, and taking it for "not given" would plan something else than was meant.
func parseVersionFlag(name, value string, given func(flag string) bool) (version.Version, error) {
	if !given(name) {
		return version.Version{}, nil
	}
	if value == "" {
		return version.Version{}, cli.InputErrorf("--"+name, "it is empty")
	}
	v, err := version.Parse(value)
	if err != nil {
		return version.Version{}, cli.WrapInput("--"+name, err)
	}
	return v, nil
}

func parseVersionsFlag(values []string) (plan.VersionList, error) {
	if values == nil {
		return nil, nil
	}
	if len(values) == 0 {
		return nil, cli.InputErrorf("--versions", "it is empty")
	}
	trimmed := make([]string, 0, len(values))
	for _, v := range values {
		trimmed = append(trimmed, strings.TrimSpace(v))
	}
	list, err := version.ParseList(trimmed)
	if item, ok := errors.AsType[*version.ItemError](err); ok {
		return nil, cli.InputErrorf("--versions", "item %d: %w", item.Index+1, item.Err)
	}
	return list, err
}

// parseWorkersFrom makes a group of each version. They get names of their own because a plan needs them.
func parseWorkersFrom(values []string) ([]plan.Group, error) {
	groups := make([]plan.Group, 0, len(values))
	for i, value := range values {
		v, err := version.Parse(value)
		if err != nil {
			return nil, cli.WrapInput("--workers-from", err)
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
		return plan.Group{}, groupError(value, errors.New("the name is missing. Fix: write NAME=VERSION, such as pool-a=v1.29.0"))
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
	return cli.WrapInput(fmt.Sprintf("--group %q", value), err)
}
