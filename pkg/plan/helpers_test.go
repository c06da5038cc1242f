package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// v parses a version; an empty string gives none.
func v(s string) version.Version {
	if s == "" {
		return version.Version{}
	}
	return version.MustParse(s)
}

// vs parses a list of versions separated by spaces.
func vs(s string) []version.Version {
	var list []version.Version
	for item := range strings.FieldsSeq(s) {
		list = append(list, version.MustParse(item))
	}
	return list
}

// groups parses "name=version" and "name=version/limit", separated by spaces; a name that starts with mp is a MachinePool.
func groups(s string) []plan.Group {
	var list []plan.Group
	for item := range strings.FieldsSeq(s) {
		name, rest, _ := strings.Cut(item, "=")
		at, limit, limited := strings.Cut(rest, "/")
		g := plan.Group{Name: name, Kind: plan.MachineDeployment, Version: version.MustParse(at)}
		if strings.HasPrefix(name, "mp") {
			g.Kind = plan.MachinePool
		}
		if limited {
			g.MaxMinorStep = uint32(limit[0] - '0')
		}
		list = append(list, g)
	}
	return list
}

// sequence writes operations the short way: "CP v1.30.0; a,b v1.30.0".
func sequence(operations []plan.Operation) string {
	var parts []string
	for _, o := range operations {
		who := "CP"
		if o.Kind == plan.WorkersUpgrade {
			who = strings.Join(o.Groups, ",") + " " + o.From.String() + " ->"
		}
		parts = append(parts, who+" "+o.To.String())
	}
	return strings.Join(parts, "; ")
}

func list(versions []version.Version) string {
	var items []string
	for _, v := range versions {
		items = append(items, v.String())
	}
	return strings.Join(items, " ")
}

// wantRule fails the test unless err is a *plan.Error for that rule, and returns it.
func wantRule(t *testing.T, err error, rule plan.Rule) *plan.Error {
	t.Helper()
	var known *plan.Error
	if !errors.As(err, &known) || known.Rule != rule {
		t.Fatalf("got error %v; want rule %s", err, rule)
	}
	if known.Problem == "" || known.Fix == "" {
		t.Fatalf("error %+v does not say both what is wrong and what would fix it", known)
	}
	return known
}
