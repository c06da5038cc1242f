// Package internal_test checks which package imports which.
package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const module = "github.com/windlass-dev/windlass/"

// A kind of package bounds its imports from outside the module.
type kind int

const (
	// pure packages decide with values: no client, clock, environment, logger, files or randomness.
	// forbidigo in .golangci.yml forbids the functions, the test below the imports.
	pure kind = iota
	// effects packages read and write.
	effects
)

// rule allows a package to import packages of this module, for a pure package pure ones. A pure package
// may also import the standard library without I/O and pureLibraries; imports lists its exceptions.
type rule struct {
	pkg     string
	kind    kind
	imports string
}

// pureLibraries are what pure packages import: types, encodings and arithmetic. They are listed one by
// one, because beside most of them there are others that read the clock or the network
// (k8s.io/apimachinery/pkg/util/wait, util/rand and util/net).
var pureLibraries = strings.Fields(`
	github.com/blang/semver/v4
	github.com/evanphx/json-patch/v5
	go.yaml.in/yaml/v3
	k8s.io/api/admissionregistration/v1
	k8s.io/api/apps/v1
	k8s.io/api/core/v1
	k8s.io/apimachinery/pkg/api/meta
	k8s.io/apimachinery/pkg/apis/meta/v1
	k8s.io/apimachinery/pkg/apis/meta/v1/unstructured
	k8s.io/apimachinery/pkg/labels
	k8s.io/apimachinery/pkg/runtime
	k8s.io/apimachinery/pkg/runtime/schema
	k8s.io/apimachinery/pkg/types
	k8s.io/apimachinery/pkg/util/errors
	k8s.io/apimachinery/pkg/util/intstr
	k8s.io/apimachinery/pkg/util/sets
	k8s.io/apimachinery/pkg/util/validation
	k8s.io/apimachinery/pkg/util/validation/field
	k8s.io/client-go/kubernetes/scheme
	k8s.io/component-helpers/resource
	k8s.io/component-helpers/scheduling/corev1/nodeaffinity
	sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2
	sigs.k8s.io/cluster-api/api/core/v1beta2
	sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1
	sigs.k8s.io/cluster-api/api/runtime/v1beta2
	sigs.k8s.io/cluster-api/util/annotations
	sigs.k8s.io/cluster-api/util/conditions
	sigs.k8s.io/json
	sigs.k8s.io/yaml
`)

// impure is the part of the standard library that pure packages do not import.
var impure = regexp.MustCompile(`^(crypto/rand|database|embed|io/ioutil|log|math/rand|net|os|plugin|syscall|testing|unsafe)(/|$)`)

// rules has one rule per package, in the order of go list.
var rules = []rule{
	{pkg: "api/updates/v1alpha1", kind: pure, imports: ``},
	{pkg: "api/v1alpha1", kind: pure, imports: ``},
	{pkg: "pkg/plan", kind: pure, imports: `pkg/version`},
	{pkg: "pkg/version", kind: pure, imports: ``},
	{pkg: "internal/app", kind: effects, imports: `
		api/updates/v1alpha1 api/v1alpha1 internal/contract internal/controllers
		internal/gate/gatehooks internal/guard/guardwebhook internal/hookclient
		internal/hookserver internal/inplace/engine internal/inplace/request internal/lease
		internal/linuxhost internal/metrics internal/port internal/topology internal/transport/pod
		internal/transport/ssh internal/updaters internal/updaters/handover
		internal/updaters/hosts internal/updaters/k8sd internal/updaters/remote internal/workload
		pkg/plan
	`},
	{pkg: "internal/capi", kind: pure, imports: `pkg/version`},
	{pkg: "internal/chain", kind: pure, imports: `
		internal/keyed internal/text pkg/plan pkg/version
	`},
	{pkg: "internal/changereport", kind: pure, imports: `
		api/v1alpha1 internal/chain internal/gate internal/inplace internal/snapshot
		internal/status internal/text pkg/plan pkg/version
	`},
	{pkg: "internal/cli", kind: effects, imports: `
		api/v1alpha1 internal/cli/management internal/inplace/request internal/manifest
		internal/text internal/view pkg/plan
	`},
	{pkg: "internal/cli/approvecmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/gate internal/snapshot
		internal/text
	`},
	{pkg: "internal/cli/checkcmd", kind: effects, imports: `
		internal/capi internal/cli internal/cli/management internal/clustercheck
		internal/clustercheck/probe internal/view internal/workload pkg/version
	`},
	{pkg: "internal/cli/doctorcmd", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/cli internal/cli/management internal/doctor
		internal/hookserver internal/manifest internal/view
	`},
	{pkg: "internal/cli/extensioncmd", kind: effects, imports: `
		api/v1alpha1 internal/app internal/cli internal/cli/serving internal/controllers
		internal/guard/guardwebhook internal/hookserver internal/lease
	`},
	{pkg: "internal/cli/logscmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/linuxhost internal/snapshot
		internal/status
	`},
	{pkg: "internal/cli/management", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/snapshot internal/status
	`},
	{pkg: "internal/cli/managercmd", kind: effects, imports: `
		internal/app internal/cli internal/cli/extensioncmd internal/cli/serving
	`},
	{pkg: "internal/cli/plancmd", kind: effects, imports: `
		internal/cli internal/cli/planinput internal/manifest internal/view pkg/plan
	`},
	{pkg: "internal/cli/planinput", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/doctor internal/inplace/cover
		internal/inplace/preview internal/manifest internal/port internal/snapshot
		internal/updaters internal/updaters/hosts internal/updaters/k8sd internal/updaters/remote
		internal/upgradegraph internal/view pkg/plan pkg/version
	`},
	{pkg: "internal/cli/preflightcmd", kind: effects, imports: `
		internal/capi internal/cli internal/cli/management internal/clustercheck
		internal/clustercheck/probe internal/gate internal/manifest internal/preflight
		internal/snapshot internal/view internal/workload pkg/version
	`},
	{pkg: "internal/cli/reportcmd", kind: effects, imports: `
		internal/changereport internal/cli internal/cli/management internal/view
	`},
	{pkg: "internal/cli/serving", kind: effects, imports: `internal/hookserver`},
	{pkg: "internal/cli/simulatecmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/cli/planinput internal/manifest
		internal/simulate/fleet internal/simulate/inventory internal/simulate/page
		internal/simulate/scenario internal/simulate/whatif internal/view pkg/plan
	`},
	{pkg: "internal/cli/statuscmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/status internal/view
	`},
	{pkg: "internal/cli/updatercmd", kind: effects, imports: `
		api/v1alpha1 internal/cli internal/cli/management internal/conformance internal/linuxhost
		internal/port internal/text internal/transport/ssh internal/updaters/hosts internal/view
		internal/workload pkg/version
	`},
	{pkg: "internal/cli/upgradecmd", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/cli internal/cli/management internal/inplace
		internal/inplace/request internal/snapshot internal/status internal/text internal/view
		pkg/version
	`},
	{pkg: "internal/cli/verifycmd", kind: effects, imports: `
		internal/chain internal/cli internal/cli/planinput internal/simulate/explore
		internal/snapshot internal/view pkg/plan pkg/version
	`},
	{pkg: "internal/clustercheck", kind: pure, imports: `internal/capi internal/text pkg/version`},
	{pkg: "internal/clustercheck/probe", kind: effects, imports: `
		internal/clustercheck internal/gate internal/preflight internal/text internal/workload
		pkg/version
	`},
	{pkg: "internal/conformance", kind: effects, imports: `
		api/updates/v1alpha1 api/v1alpha1 internal/inplace internal/inplace/cover internal/port
		internal/text internal/updaters internal/updaters/handover
	`},
	{pkg: "internal/contract", kind: effects, imports: `internal/capi internal/keyed`},
	{pkg: "internal/controllers", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/contract internal/gate internal/guard
		internal/inplace/engine internal/readiness internal/snapshot internal/text
		internal/updatepolicy internal/upgradegraph
	`},
	{pkg: "internal/doctor", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/snapshot internal/status internal/text
		internal/updatepolicy
	`},
	{pkg: "internal/gate", kind: pure, imports: `
		api/v1alpha1 internal/readiness internal/text pkg/version
	`},
	{pkg: "internal/gate/gatehooks", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/gate internal/shares internal/snapshot internal/text
	`},
	{pkg: "internal/guard", kind: pure, imports: ``},
	{pkg: "internal/guard/guardwebhook", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/chain internal/contract internal/guard internal/shares
		internal/snapshot internal/text internal/updatepolicy pkg/version
	`},
	{pkg: "internal/hookclient", kind: effects, imports: `
		internal/keyed internal/peer internal/text
	`},
	{pkg: "internal/hookserver", kind: effects, imports: `
		api/v1alpha1 internal/gate internal/inplace internal/inplace/cover internal/keyed
		internal/text internal/upgradegraph pkg/plan pkg/version
	`},
	{pkg: "internal/htmlpage", kind: pure, imports: `internal/text embed`},
	{pkg: "internal/htmlpage/htmlpagetest", kind: effects, imports: ``},
	{pkg: "internal/inplace", kind: pure, imports: `internal/inplace/cover pkg/version`},
	{pkg: "internal/inplace/cover", kind: pure, imports: `internal/text pkg/version`},
	{pkg: "internal/inplace/engine", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/contract internal/inplace internal/inplace/cover
		internal/inplace/request internal/keyed internal/metrics internal/port internal/recordjson
		internal/snapshot internal/text internal/updatepolicy pkg/version
	`},
	{pkg: "internal/inplace/preview", kind: effects, imports: `
		api/v1alpha1 internal/inplace/cover internal/inplace/engine internal/port
		internal/snapshot internal/updatepolicy pkg/version
	`},
	{pkg: "internal/inplace/request", kind: pure, imports: `
		api/v1alpha1 internal/inplace pkg/version
	`},
	{pkg: "internal/keyed", kind: pure, imports: ``},
	{pkg: "internal/lease", kind: effects, imports: ``},
	{pkg: "internal/linuxhost", kind: pure, imports: `
		internal/inplace internal/port internal/text pkg/version embed
	`},
	{pkg: "internal/manifest", kind: effects, imports: `
		api/v1alpha1 internal/doctor internal/snapshot pkg/plan pkg/version
	`},
	{pkg: "internal/metrics", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/inplace internal/inplace/request internal/keyed
		internal/status
	`},
	{pkg: "internal/peer", kind: effects, imports: ``},
	{pkg: "internal/port", kind: pure, imports: `internal/inplace internal/inplace/cover`},
	{pkg: "internal/port/porttest", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/port pkg/version
	`},
	{pkg: "internal/preflight", kind: pure, imports: `
		internal/clustercheck internal/gate internal/text pkg/version
	`},
	{pkg: "internal/readiness", kind: pure, imports: `api/v1alpha1`},
	{pkg: "internal/recordjson", kind: pure, imports: ``},
	{pkg: "internal/recordjson/formtest", kind: effects, imports: ``},
	{pkg: "internal/shares", kind: effects, imports: `internal/keyed`},
	{pkg: "internal/simulate/explore", kind: pure, imports: `internal/chain pkg/plan pkg/version`},
	{pkg: "internal/simulate/fleet", kind: pure, imports: `
		internal/chain internal/gate internal/guard internal/inplace pkg/plan pkg/version
		math/rand/v2
	`},
	{pkg: "internal/simulate/inventory", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/gate internal/inplace internal/inplace/cover
		internal/simulate/fleet internal/simulate/scenario internal/snapshot internal/text
		internal/updatepolicy pkg/plan pkg/version
	`},
	{pkg: "internal/simulate/page", kind: pure, imports: `
		internal/htmlpage internal/simulate/whatif internal/text embed
	`},
	{pkg: "internal/simulate/scenario", kind: pure, imports: `
		api/v1alpha1 internal/gate internal/inplace internal/simulate/fleet internal/updatepolicy
		pkg/plan pkg/version
	`},
	{pkg: "internal/simulate/whatif", kind: pure, imports: `
		internal/inplace internal/simulate/fleet pkg/version golang.org/x/sync/errgroup
	`},
	{pkg: "internal/snapshot", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/chain internal/recordjson internal/updatepolicy
		internal/upgradegraph pkg/plan pkg/version
	`},
	{pkg: "internal/status", kind: pure, imports: `
		api/v1alpha1 internal/capi internal/chain internal/inplace internal/inplace/cover
		internal/inplace/request internal/snapshot internal/text internal/updatepolicy pkg/plan
		pkg/version
	`},
	{pkg: "internal/text", kind: pure, imports: ``},
	{pkg: "internal/topology", kind: effects, imports: `
		api/v1alpha1 internal/capi internal/chain internal/contract internal/keyed
		internal/snapshot internal/text pkg/plan pkg/version
	`},
	{pkg: "internal/transport", kind: effects, imports: `internal/port`},
	{pkg: "internal/transport/pod", kind: effects, imports: `
		internal/peer internal/port internal/transport
	`},
	{pkg: "internal/transport/ssh", kind: effects, imports: `internal/port internal/transport`},
	{pkg: "internal/updatepolicy", kind: pure, imports: `
		api/v1alpha1 internal/guard internal/inplace internal/inplace/cover internal/linuxhost
		internal/readiness internal/text
	`},
	{pkg: "internal/updaters", kind: effects, imports: `
		api/updates/v1alpha1 internal/inplace internal/inplace/cover internal/peer
	`},
	{pkg: "internal/updaters/handover", kind: effects, imports: `
		api/updates/v1alpha1 api/v1alpha1 internal/capi internal/inplace internal/inplace/cover
		internal/keyed internal/port internal/updaters
	`},
	{pkg: "internal/updaters/hosts", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/inplace/cover internal/inplace/request
		internal/keyed internal/linuxhost internal/port internal/text internal/updaters
		pkg/version
	`},
	{pkg: "internal/updaters/k8sd", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/inplace/cover internal/inplace/request
		internal/keyed internal/peer internal/port internal/recordjson internal/updaters
		pkg/version
	`},
	{pkg: "internal/updaters/k8sd/k8sdtest", kind: effects, imports: ``},
	{pkg: "internal/updaters/remote", kind: effects, imports: `
		api/v1alpha1 internal/inplace internal/inplace/cover internal/port internal/updaters
	`},
	{pkg: "internal/updaterserver", kind: effects, imports: `
		internal/hookserver internal/inplace internal/inplace/cover internal/port
	`},
	{pkg: "internal/updaterserver/servertest", kind: effects, imports: `
		internal/conformance internal/hookserver internal/inplace internal/port
		internal/port/porttest internal/updaterserver test/loopback
	`},
	{pkg: "internal/upgradegraph", kind: pure, imports: `
		api/v1alpha1 internal/readiness pkg/plan pkg/version
	`},
	{pkg: "internal/view", kind: pure, imports: `
		internal/changereport internal/clustercheck internal/doctor internal/gate
		internal/htmlpage internal/inplace/cover internal/status internal/text pkg/plan
		pkg/version embed
	`},
	{pkg: "internal/workload", kind: effects, imports: `
		internal/gate internal/inplace internal/keyed internal/peer internal/port internal/shares
		internal/text pkg/version
	`},
}

type listed struct {
	ImportPath string
	Imports    []string
}

// TestImports fails when a package imports what its rule does not allow, when a rule allows what the
// package does not import, and when a package has no rule.
func TestImports(t *testing.T) {
	t.Parallel()
	for _, problem := range violations(rules, list(t)) {
		t.Error(problem)
	}
}

// TestViolations: each way to break a rule is found.
func TestViolations(t *testing.T) {
	t.Parallel()
	allow := []rule{
		{pkg: "internal/rule", kind: pure, imports: `pkg/version`},
		{pkg: "internal/server", kind: effects, imports: `internal/rule`},
		{pkg: "pkg/version", kind: pure},
	}
	good := []listed{
		{ImportPath: "internal/rule", Imports: []string{"fmt", "k8s.io/apimachinery/pkg/types", module + "pkg/version"}},
		{ImportPath: "internal/server", Imports: []string{"net/http", module + "internal/rule"}},
		{ImportPath: "pkg/version"},
	}
	imports := func(paths ...string) []listed {
		return append([]listed{{ImportPath: "internal/rule", Imports: append(paths, module+"pkg/version")}}, good[1:]...)
	}
	for name, test := range map[string]struct {
		rules    []rule
		packages []listed
		want     string
	}{
		"none":                  {allow, good, ""},
		"a package without one": {allow, append(imports(), listed{ImportPath: "internal/new"}), "package internal/new has no rule"},
		"no such package":       {allow, good[1:], "package internal/rule does not exist"},
		"an import without one": {allow, imports(module + "internal/server"), "package internal/rule must not import internal/server"},
		"no such import":        {allow, append([]listed{{ImportPath: "internal/rule"}}, good[1:]...), "package internal/rule does not import pkg/version"},
		"effects in a pure package": {append([]rule{{pkg: "internal/rule", kind: pure, imports: `internal/server pkg/version`}}, allow[1:]...),
			imports(module + "internal/server"), "package internal/rule is pure and must not import internal/server"},
		"a client in a pure package":     {allow, imports("sigs.k8s.io/controller-runtime/pkg/client"), "pure and must not import sigs.k8s.io/controller-runtime/pkg/client"},
		"randomness in a pure package":   {allow, imports("k8s.io/apimachinery/pkg/util/rand"), "pure and must not import k8s.io/apimachinery/pkg/util/rand"},
		"the network in a pure package":  {allow, imports("k8s.io/apimachinery/pkg/util/net"), "pure and must not import k8s.io/apimachinery/pkg/util/net"},
		"standard I/O in a pure package": {allow, imports("net/http"), "pure and must not import net/http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := violations(test.rules, test.packages)
			if test.want == "" && len(got) != 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// violations returns what is wrong with the imports of packages, by rules.
func violations(rules []rule, packages []listed) []string {
	var found []string
	byName := map[string]rule{}
	for _, r := range rules {
		byName[r.pkg] = r
	}
	exist := map[string]bool{}
	for _, p := range packages {
		exist[p.ImportPath] = true
		if r, ok := byName[p.ImportPath]; ok {
			found = append(found, check(byName, r, p.Imports)...)
		} else {
			found = append(found, fmt.Sprintf("package %s has no rule: add one to internal/layout_test.go", p.ImportPath))
		}
	}
	for _, r := range rules {
		if !exist[r.pkg] {
			found = append(found, fmt.Sprintf("package %s does not exist: delete its rule from internal/layout_test.go", r.pkg))
		}
	}
	return found
}

// check returns what is wrong with the imports of the package of r.
func check(byName map[string]rule, r rule, imports []string) []string {
	var found []string
	allowed := strings.Fields(r.imports)
	for _, path := range imports {
		own, internal := strings.CutPrefix(path, module)
		at := slices.Index(allowed, own)
		imported, ruled := byName[own]
		switch {
		case at < 0 && internal:
			found = append(found, fmt.Sprintf("package %s must not import %s, by its rule in internal/layout_test.go", r.pkg, own))
		case r.kind == pure && internal && (!ruled || imported.kind != pure),
			r.kind == pure && at < 0 && !internal && !isPure(path):
			found = append(found, fmt.Sprintf("package %s is pure and must not import %s", r.pkg, own))
		}
		if at >= 0 {
			allowed = slices.Delete(allowed, at, at+1)
		}
	}
	for _, path := range allowed {
		found = append(found, fmt.Sprintf("package %s does not import %s: delete that from its rule in internal/layout_test.go", r.pkg, path))
	}
	return found
}

func isPure(path string) bool {
	if !strings.Contains(strings.Split(path, "/")[0], ".") {
		return !impure.MatchString(path)
	}
	return slices.Contains(pureLibraries, path)
}

// list returns the product's packages, with their names below the module.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./api/...", "./pkg/...", "./internal/...")
	cmd.Dir = ".."
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		if p.ImportPath != "internal" {
			all = append(all, p)
		}
	}
	return all
}

// TestForbiddenCalls fails when the linter's rule against clocks, the environment and randomness does
// not hold in exactly the pure packages.
func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Exclusions struct {
				Rules []struct {
					PathExcept string `json:"path-except"`
					Text       string `json:"text"`
				} `json:"rules"`
			} `json:"exclusions"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var path *regexp.Regexp
	for _, r := range config.Linters.Exclusions.Rules {
		if r.Text == "pure: " && r.PathExcept != "" {
			path = regexp.MustCompile(r.PathExcept)
		}
	}
	if path == nil {
		t.Fatal(".golangci.yml has no rule with path-except and the text \"pure: \"")
	}
	for _, r := range rules {
		if got, want := path.MatchString(r.pkg+"/file.go"), r.kind == pure; got != want {
			t.Errorf("%s: %s covers package %s: %t, but by internal/layout_test.go it is pure: %t", ".golangci.yml", path, r.pkg, got, want)
		}
	}
}
