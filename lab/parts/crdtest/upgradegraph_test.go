package crdtest

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargestUpgradeGraph holds that the rules can be afforded for every object that keeps the bounds: the API server's estimate,
// which TestAccepted checks, is about less than what it then spends on one rule.
func TestLargestUpgradeGraph(t *testing.T) {
	t.Parallel()
	spec := loadCRD(t, upgradeGraphs).Spec.Validation.OpenAPIV3Schema.Properties["spec"]
	most := func(property string) int { return int(*spec.Properties[property].MaxItems) }
	var versions, blocked, floors, classes []any
	for i := range most("versions") {
		// The longest version, in a minor of its own.
		v := fmt.Sprintf("v1.%d.0+", 1000+i)
		versions = append(versions, v+strings.Repeat("x", 64-len(v)))
	}
	last := fmt.Sprintf("v1.%d", 1000+len(versions)-1)
	for range most("blocked") {
		// What matches is found last.
		blocked = append(blocked, map[string]any{"from": last, "to": last, "reason": strings.Repeat("x", 512)})
	}
	for range most("floors") {
		floors = append(floors, map[string]any{"before": "v1.999999999", "atLeast": versions[0], "reason": strings.Repeat("x", 512)})
	}
	match, versionMatches := []any{}, spec.Properties["workers"].Items.Schema.Properties["versions"].MaxItems
	for range *versionMatches {
		match = append(match, last)
	}
	var workers []any
	for range most("workers") {
		workers = append(workers, map[string]any{"stops": "Versions", "versions": match, "reason": strings.Repeat("x", 512)})
	}
	for range most("classes") {
		classes = append(classes, map[string]any{"name": strings.Repeat("x", 253), "namespace": strings.Repeat("x", 63)})
	}
	accepted := []any{}
	for i := range *spec.Properties["knownRisks"].Properties["accepted"].MaxItems {
		id := fmt.Sprintf("r%d", i)
		accepted = append(accepted, map[string]any{"id": id + strings.Repeat("x", 63-len(id)), "reason": strings.Repeat("x", 512)})
	}
	for _, problem := range newValidator(t, upgradeGraphs).validate(t, map[string]any{
		"apiVersion": "windlass.dev/v1alpha1", "kind": "UpgradeGraph", "metadata": map[string]any{"name": "largest"},
		"spec": map[string]any{"versions": versions, "blocked": blocked, "floors": floors, "classes": classes, "workers": workers, "knownRisks": map[string]any{"action": "Block", "accepted": accepted}},
	}) {
		t.Error(problem)
	}
}

func TestUpgradeGraphs(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: windlass.dev/v1alpha1\nkind: UpgradeGraph\nmetadata: {name: stable}\nspec:\n"
	const listed = "  versions: [v1.30.3, v1.31.2, v1.31.2+rke2r2, v1.32.0-rc.1]\n"
	checkObjects(t, upgradeGraphs, head, map[string]objectTest{
		"everything": {spec: listed + `
  classes: [{name: standard}, {name: a.b-c, namespace: x-y}, {name: z, namespace: ""}]
  blocked: [{from: v1.30, to: v1.31.2, reason: r}, {from: v1.31.2+rke2r2, reason: r}, {to: v1.32, reason: r}, {from: "", to: v1.32.0-rc.1, reason: r}]
  floors: [{before: v1.34, atLeast: v1.33.5, reason: r}, {before: v1.10, atLeast: v1.9.0, reason: r}, {before: v2.0, atLeast: v1.40.1, reason: r}]`},
		"rules of workers": {spec: listed + `
  workers:
  - {groups: [a], stops: Fewest, reason: r}
  - {classes: [{name: standard}], workerClasses: [gpu], stops: EveryMinor, reason: r}
  - {stops: Versions, versions: [v1.31, v1.31.2+rke2r2, v1.32.0-rc.1], reason: r}`},
		"known risks":              {spec: listed + "  knownRisks: {action: Block, accepted: [{id: etcd-36-zombie-members, reason: r}, {id: a, reason: r}]}"},
		"known risks that warn":    {spec: listed + "  knownRisks: {action: Warn}"},
		"nothing of known risks":   {spec: listed + "  knownRisks: {}", want: []string{"spec.knownRisks: Invalid value: 0: spec.knownRisks in body should have at least 1 properties"}},
		"an unknown action":        {spec: listed + "  knownRisks: {action: Panic}", want: []string{`spec.knownRisks.action: Unsupported value: "Panic"`}},
		"accepted without reason":  {spec: listed + "  knownRisks: {accepted: [{id: a}]}", want: []string{"spec.knownRisks.accepted[0].reason: Required value"}},
		"accepted without id":      {spec: listed + "  knownRisks: {accepted: [{reason: r}]}", want: []string{"spec.knownRisks.accepted[0].id: Required value"}},
		"accepted with blanks":     {spec: listed + "  knownRisks: {accepted: [{id: a b, reason: r}]}", want: []string{"spec.knownRisks.accepted[0].id: Invalid value"}},
		"accepted twice":           {spec: listed + "  knownRisks: {accepted: [{id: a, reason: r}, {id: a, reason: r}]}", want: []string{"spec.knownRisks.accepted[1]: Duplicate value"}},
		"a rule without stops":     {spec: listed + "  workers: [{reason: r}]", want: []string{"spec.workers[0].stops: Required value"}},
		"a rule of unknown stops":  {spec: listed + "  workers: [{stops: Most, reason: r}]", want: []string{`spec.workers[0].stops: Unsupported value: "Most"`}},
		"a rule without a reason":  {spec: listed + "  workers: [{stops: Fewest}]", want: []string{"spec.workers[0].reason: Required value"}},
		"a rule without versions":  {spec: listed + "  workers: [{stops: Versions, reason: r}]", want: []string{"spec.workers[0]: Invalid value: set versions with stops: Versions, and only with it"}},
		"a rule with versions":     {spec: listed + "  workers: [{stops: Fewest, versions: [v1.31], reason: r}]", want: []string{"spec.workers[0]: Invalid value: set versions with stops: Versions, and only with it"}},
		"a rule of another minor":  {spec: listed + "  workers: [{stops: Versions, versions: [v1.33], reason: r}]", want: []string{"spec.workers: Invalid value: each of the versions in spec.workers must be one of spec.versions, or a minor"}},
		"a rule of an empty match": {spec: listed + `  workers: [{stops: Versions, versions: [""], reason: r}]`, want: []string{"spec.workers[0].versions[0]: "}},
		"no versions":              {spec: "  classes: []", want: []string{"spec.versions: Required value"}},
		"no version":               {spec: "  versions: []", want: []string{"spec.versions: Invalid value: 0: spec.versions in body should have at least 1 items"}},
		"an unquoted minor":        {spec: "  versions: [1.31]", want: []string{"spec.versions[0]: Invalid value"}},
		"a minor":                  {spec: "  versions: [v1.30.3, v1.31]", want: []string{`spec.versions[1]: Invalid value: "v1.31": must be a Kubernetes version with a leading v and all three numbers, such as v1.31.2`}},
		"no v":                     {spec: "  versions: [1.30.3]", want: []string{`spec.versions[0]: Invalid value: "1.30.3": must be a Kubernetes version with a leading v`}},
		"a leading zero":           {spec: "  versions: [v1.030.3]", want: []string{"spec.versions[0]: Invalid value"}},
		"an empty version":         {spec: `  versions: [""]`, want: []string{"spec.versions[0]: Invalid value"}},
		"a version twice":          {spec: "  versions: [v1.30.3, v1.31.2, v1.30.3]", want: []string{"spec.versions: Invalid value: the list may contain each version once"}},
		"a class with slash":       {spec: listed + "  classes: [{name: x/standard}]", want: []string{`spec.classes[0].name: Invalid value: "x/standard": must be the name of a ClusterClass`}},
		"a bad namespace":          {spec: listed + "  classes: [{name: a, namespace: X}]", want: []string{`spec.classes[0].namespace: Invalid value: "X": must be the name of a namespace`}},
		"a class unnamed":          {spec: listed + "  classes: [{namespace: x}]", want: []string{"spec.classes[0].name: Required value"}},
		"a block without a reason": {
			spec: listed + "  blocked: [{to: v1.31.2}]", want: []string{"spec.blocked[0].reason: Required value"},
		},
		"a floor without a reason": {
			spec: listed + "  floors: [{before: v1.34, atLeast: v1.33.5}]", want: []string{"spec.floors[0].reason: Required value"},
		},
		"a block of everything": {
			spec: listed + "  blocked: [{reason: r}]", want: []string{"spec.blocked[0]: Invalid value: set from, to, or both: without either, every upgrade would be blocked"},
		},
		"a block from what is not listed": {
			spec: listed + "  blocked: [{from: v1.31.20, reason: r}]", want: []string{"spec.blocked: Invalid value: each from must be one of spec.versions, or a minor"},
		},
		"a block to a minor that is not listed": {
			spec: listed + "  blocked: [{to: v1.3, reason: r}]", want: []string{"spec.blocked: Invalid value: each to must be one of spec.versions, or a minor"},
		},
		"a block to the beginning of a version": {
			spec: listed + "  blocked: [{to: v1.32.0-rc, reason: r}]", want: []string{"spec.blocked: Invalid value: each to must be one of spec.versions, or a minor"},
		},
		"a block from the beginning of a version": {
			spec: "  versions: [v1.31.2+build.7]\n  blocked: [{from: v1.31.2+build, reason: r}]",
			want: []string{"spec.blocked: Invalid value: each from must be one of spec.versions, or a minor"},
		},
		"a block to a release whose builds are listed": {
			spec: "  versions: [v1.31.2+rke2r2]\n  blocked: [{to: v1.31.2, reason: r}]", want: []string{"spec.blocked: Invalid value: each to must be one of spec.versions, or a minor"},
		},
		"a block that does not parse": {
			spec: listed + "  blocked: [{from: 1.31.2, reason: r}]", want: []string{
				"spec.blocked: ", `spec.blocked[0].from: Invalid value: "1.31.2": must be a version such as v1.31.2, or a minor such as v1.31`,
			},
		},
		"a floor of the same minor": {
			spec: listed + "  floors: [{before: v1.33, atLeast: v1.33.5, reason: r}]", want: []string{"spec.floors[0]: Invalid value: atLeast must be a version of a minor older than before"},
		},
		"a floor above":             {spec: listed + "  floors: [{before: v1.9, atLeast: v1.10.0, reason: r}]", want: []string{"spec.floors[0]: Invalid value"}},
		"a floor of a newer major":  {spec: listed + "  floors: [{before: v1.34, atLeast: v2.1.0, reason: r}]", want: []string{"spec.floors[0]: Invalid value"}},
		"a floor before a version":  {spec: listed + "  floors: [{before: v1.33.1, atLeast: v1.32.0, reason: r}]", want: []string{`spec.floors[0].before: Invalid value: "v1.33.1": must be a Kubernetes minor release`}},
		"a floor at least a minor":  {spec: listed + "  floors: [{before: v1.33, atLeast: v1.32, reason: r}]", want: []string{`spec.floors[0].atLeast: Invalid value: "v1.32": must be a Kubernetes version`}},
		"a floor without at least":  {spec: listed + "  floors: [{before: v1.33, reason: r}]", want: []string{"spec.floors[0].atLeast: Required value"}},
		"a reason of great length":  {spec: listed + "  blocked: [{to: v1.31, reason: " + strings.Repeat("x", 513) + "}]", want: []string{"spec.blocked[0].reason: Too long"}},
		"a version of great length": {spec: "  versions: [v1.30.3+" + strings.Repeat("x", 64) + "]", want: []string{"spec.versions[0]: Too long"}},
	})
}
