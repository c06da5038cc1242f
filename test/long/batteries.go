package main

import (
	"fmt"
	"strings"
)

// battery is a group of tests with one result.
type battery struct {
	// name is unique, and a word: it names the log and the line of the record.
	name string
	// command is executed by bash in the root of the repository.
	command string
}

// mutated are the packages whose conditions are negated. Their tests kill all mutants but those that
// test/mutants lists.
var mutated = strings.Fields(`
	internal/capi internal/chain internal/gate internal/guard internal/inplace internal/inplace/cover
	internal/inplace/request internal/intervention internal/kubeadmpatch internal/labelselector internal/policy
	internal/pool internal/record internal/risks internal/settings internal/untrusted
	internal/updatepolicy internal/upgradegraph
	pkg/plan pkg/version
`)

// raced are the trees of packages whose tests run with the race detector as batteries of their own: in
// one, they would take an hour, and what a stopped battery has done is lost.
var raced = strings.Fields(`
	cmd internal/inplace internal/linuxhost internal/pool internal/simulate pkg test
`)

// lengthened are the packages of the root module whose tests do more with WINDLASS_LONG=1.
var lengthened = strings.Fields(`
	cmd/windlass internal/inplace internal/inplace/engine internal/inplace/request
	internal/pool/machinedeployment internal/simulate/explore internal/simulate/fleet
	internal/simulate/rollouts
`)

// lab are the packages of the lab whose tests do more with WINDLASS_LONG=1, or run nowhere else.
var lab = strings.Fields(`
	kube test/e2e/chain test/e2e/engine test/e2e/inplace test/e2e/kubeadm test/e2e/pools
	test/e2e/processruntime test/e2e/restored test/e2e/seeds test/linuxhost test/neighbours
`)

// documents are those of docs/conformance.md.
var documents = strings.Fields("000 001 002 003 004")

// realTests are the tests of real control planes with a long form of their own.
var realTests = strings.Fields(`
	TestControlPlanes/in_place TestControlPlanes/replaced TestControlPlanes/faults TestChain TestDemo
	TestRehearse TestUpReal TestJournal
`)

const race = "go test -count=1 -race -vet=off -timeout 2h "

// batteries returns all batteries, in the order in which they begin if none has passed.
func batteries() []battery {
	all := []battery{
		{"fuzz", "make fuzz"},
		{"race", race + "$(go list ./... | grep -v -E '/windlass/(" + strings.Join(raced, "|") + ")(/|$)')"},
		{"differential", "cd test/differential && WINDLASS_LONG=1 go test -count=1 -vet=off " +
			"-timeout 2h -v ./... -args -inputs=3000000"},
		{"upstream-mutants", "cd test/upstream && WINDLASS_LONG=1 go test -count=1 -vet=off " +
			"-timeout 2h -v -run '^TestMutants$' ."},
		{"reproducible", "cd tools/release && WINDLASS_LONG=1 go test -count=1 -vet=off " +
			"-timeout 2h -v -run Reproducible ."},
		{"pool-writes", "WINDLASS_POOL_WRITES=1 " + e2e("test/e2e/bench", "^TestPoolWrites$")},
	}
	for _, tree := range raced {
		all = append(all, battery{nameOf("race", tree), race + "./" + tree + "/..."})
	}
	for _, pkg := range lengthened {
		all = append(all, battery{nameOf("long", pkg),
			"WINDLASS_LONG=1 go test -count=1 -vet=off -timeout 2h ./" + pkg})
	}
	for _, pkg := range mutated {
		all = append(all, battery{nameOf("mutants", pkg), "make mutants PACKAGE=" + pkg})
	}
	for _, document := range documents {
		all = append(all, battery{nameOf("conformance", document),
			"go run ./test/conformance mutants " + document})
	}
	all = append(all, battery{"conformance:live", "go run ./test/conformance sample 3 $(date +%j | sed 's/^0*//')"})
	for _, pkg := range lab {
		all = append(all, battery{nameOf("lab", pkg), e2e(pkg, "")})
	}
	for _, test := range realTests {
		pattern := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
		all = append(all, battery{nameOf("real", test), e2e("test/e2e/real", pattern)})
	}
	return all
}

// e2e returns the command for the long form of a package of the lab.
func e2e(pkg, run string) string {
	return fmt.Sprintf("WINDLASS_LONG=1 WINDLASS_E2E=1 WINDLASS_PROGRAMS=$PWD/bin GOGC=200 "+
		"go -C lab test -count=1 -vet=off -timeout 6h -v -run '%s' ./%s", run, pkg)
}

func nameOf(kind, what string) string {
	return kind + ":" + strings.ReplaceAll(what, "/", ".")
}
