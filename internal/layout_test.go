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
	k8s.io/api/coordination/v1
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
	sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2
	sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2
	sigs.k8s.io/cluster-api/api/core/v1beta2
	sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1
	sigs.k8s.io/cluster-api/api/runtime/v1beta2
	sigs.k8s.io/cluster-api/util/annotations
	sigs.k8s.io/cluster-api/util/conditions
	sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1
	sigs.k8s.io/cluster-api/util/version
	sigs.k8s.io/json
	sigs.k8s.io/yaml
`)

// impure is the part of the standard library that pure packages do not import. net/netip is none of it: it
// has addresses as values, and no network.
var impure = regexp.MustCompile(`^(crypto/rand|database|embed|io/ioutil|log|math/rand|net|os|plugin|syscall|testing|unsafe)(/|$)`)

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
			found = append(found, fmt.Sprintf("package %s has no rule: add one to internal/layout_rules_test.go", p.ImportPath))
		}
	}
	for _, r := range rules {
		if !exist[r.pkg] {
			found = append(found, fmt.Sprintf("package %s does not exist: delete its rule from internal/layout_rules_test.go", r.pkg))
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
			found = append(found, fmt.Sprintf("package %s must not import %s, by its rule in internal/layout_rules_test.go", r.pkg, own))
		case r.kind == pure && internal && (!ruled || imported.kind != pure),
			r.kind == pure && at < 0 && !internal && !isPure(path):
			found = append(found, fmt.Sprintf("package %s is pure and must not import %s", r.pkg, own))
		}
		if at >= 0 {
			allowed = slices.Delete(allowed, at, at+1)
		}
	}
	for _, path := range allowed {
		found = append(found, fmt.Sprintf("package %s does not import %s: delete that from its rule in internal/layout_rules_test.go", r.pkg, path))
	}
	return found
}

func isPure(path string) bool {
	if !strings.Contains(strings.Split(path, "/")[0], ".") {
		return path == "net/netip" || !impure.MatchString(path)
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
			t.Errorf("%s: %s covers package %s: %t, but by internal/layout_rules_test.go it is pure: %t", ".golangci.yml", path, r.pkg, got, want)
		}
	}
}
