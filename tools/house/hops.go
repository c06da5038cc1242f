package main

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/tools/go/callgraph"
	"golang.org/x/tools/go/callgraph/cha"
	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

const module = "github.com/windlass-dev/windlass/"

// path is a way from a cause to its effect, by the names of functions as ssa prints them. The patterns
// match the names that functions have and had.
type path struct {
	name, from, to string
}

var paths = []path{
	{name: "version change", from: `topology\.Reconciler\)\.Reconcile$`, to: `internal/topology\..*\.apply$`},
	{name: "CanUpdate", from: `hookserver\.\w+\)\.CanUpdateMachine$`, to: `remote\.\w+\)\.CanUpdateMachine$`},
	{name: "UpdateMachine", from: `hookserver\.\w+\)\.UpdateMachine$`, to: `remote\.\w+\)\.UpdateMachine$`},
	{name: "annotation", from: `(engine/annotated|inplace/annotations)\.Engine\)\.Machine$|inplace/engine\.Engine\)\.UpgradeMachine$`, to: `remote\.\w+\)\.UpdateMachine$`},
	{name: "simulate", from: `(cmd/windlass\.runSimulate|cli/simulatecmd\.run)$`, to: `chain\.Decide$`},
	{name: "kubeadm step", from: `hosts\.\w+\)\.UpdateMachine$`, to: `ssh\.\w+\)\.Exec$`},
}

// measureHops counts the calls on the shortest way of each path through functions of the product, and
// the packages that they are in. A path whose start or way is not found is an error: its function has
// another name by now.
func measureHops(root string, paths []path) ([]row, error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: root}, "./cmd/...", "./internal/...", "./pkg/...")
	if err != nil {
		return nil, err
	}
	if packages.PrintErrors(loaded) > 0 {
		return nil, fmt.Errorf("%s does not build", root)
	}
	program, _ := ssautil.Packages(loaded, ssa.InstantiateGenerics)
	program.Build()
	all := ssautil.AllFunctions(program)
	graph := vta.CallGraph(all, cha.CallGraph(program))
	rows := make([]row, 0, len(paths))
	for _, p := range paths {
		hops, err := p.measure(graph)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w. Fix: add the function's name to paths in tools/house/hops.go", p.name, err)
		}
		rows = append(rows, row{name: "hops: " + p.name, values: []string{hops}})
	}
	return rows, nil
}

func (p path) measure(graph *callgraph.Graph) (string, error) {
	from, to := regexp.MustCompile(p.from), regexp.MustCompile(p.to)
	seen := map[*callgraph.Node]*callgraph.Node{}
	var queue []*callgraph.Node
	for f, node := range graph.Nodes {
		if f != nil && from.MatchString(f.String()) {
			queue = append(queue, node)
			seen[node] = nil
		}
	}
	if len(queue) == 0 {
		return "", fmt.Errorf("no function matches its start %s", p.from)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		node := queue[0]
		if to.MatchString(node.Func.String()) {
			return describe(node, seen), nil
		}
		for _, next := range callees(graph, node) {
			if _, ok := seen[next]; !ok && next.Func != nil {
				seen[next] = node
				queue = append(queue, next)
			}
		}
	}
	return "", fmt.Errorf("no calls lead from %s to %s", p.from, p.to)
}

// callees are what a function calls, and the functions in it: libraries, whose bodies are not loaded,
// call those.
func callees(graph *callgraph.Graph, node *callgraph.Node) []*callgraph.Node {
	var next []*callgraph.Node
	for _, edge := range node.Out {
		next = append(next, edge.Callee)
	}
	for _, inner := range node.Func.AnonFuncs {
		if n := graph.Nodes[inner]; n != nil {
			next = append(next, n)
		}
	}
	return next
}

// describe counts what lies between the start and node, whose predecessors are in seen.
func describe(node *callgraph.Node, seen map[*callgraph.Node]*callgraph.Node) string {
	calls, in := -1, map[string]bool{}
	for at := node; at != nil; at = seen[at] {
		calls++
		// Wrappers and instances of generic functions have no package.
		if pkg := at.Func.Pkg; pkg != nil && strings.HasPrefix(pkg.Pkg.Path(), module) {
			in[pkg.Pkg.Path()] = true
		}
	}
	return fmt.Sprintf("%d calls, %d packages", calls, len(in))
}
