package pool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// randomField is what every template of names must have.
const randomField = "{{ .random }}"

// namingFunctions are the functions that a template of names may call. Their cost and the length
// of what they return are at most in proportion to their arguments. printf needs a plainFormat.
var namingFunctions = []string{
	"and", "eq", "ge", "gt", "index", "le", "len", "lt", "ne", "not", "or", "print", "printf", "slice",
}

// plainFormat is a format that does not pad: text, and strings that it may shorten.
var plainFormat = regexp.MustCompile(`^([^%]|%(\.[0-9]{1,3})?[sv]|%%)*$`)

// ParseNaming parses spec.machineNaming.template of a MachineDeployment or MachineSet. It refuses a
// template that Cluster API accepts and that could run for hours or fill the memory, because who
// may create such an object may be a tenant: loops, variables, with, templates within templates, and
// functions that lengthen text. With variables, or with in with, a template could double a text
// again and again.
func ParseNaming(naming string) (*template.Template, error) {
	if !strings.Contains(naming, randomField) {
		return nil, fmt.Errorf("machineNaming.template %q lacks %s. Fix: add it", naming, randomField)
	}
	const name = "machineNaming"
	parsed, err := template.New(name).Option("missingkey=error").Parse(naming)
	if err != nil {
		return nil, fmt.Errorf("parsing machineNaming.template %q: %w", naming, err)
	}
	for _, t := range parsed.Templates() {
		if t.Name() != name {
			return nil, refuseNaming(fmt.Sprintf("the definition of %q", t.Name()))
		}
	}
	if refused := refusedNode(parsed.Root); refused != nil {
		return nil, refuseNaming(refused.String())
	}
	return parsed, nil
}

func refuseNaming(found string) error {
	return fmt.Errorf("machineNaming.template has %s. Fix: use only text, fields, if, and the "+
		"functions %s (printf with %%s, %%v and such as %%.20s)", found,
		strings.Join(namingFunctions, ", "))
}

// refusedNode returns the first part below a node that a template of names may not have, or nil.
func refusedNode(node parse.Node) parse.Node {
	switch n := node.(type) {
	case *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return refusedPipe(n.Pipe)
	case *parse.IfNode:
		if refused := refusedPipe(n.Pipe); refused != nil {
			return refused
		}
		lists := []*parse.ListNode{n.List, n.ElseList}
		return firstRefused(lists, func(l *parse.ListNode) parse.Node { return refusedNode(l) })
	case *parse.ListNode:
		if n == nil { // There is no else.
			return nil
		}
		return firstRefused(n.Nodes, refusedNode)
	default:
		return node
	}
}

func refusedPipe(pipe *parse.PipeNode) parse.Node {
	if len(pipe.Decl) > 0 {
		return pipe
	}
	return firstRefused(pipe.Cmds, func(c *parse.CommandNode) parse.Node {
		if name, ok := c.Args[0].(*parse.IdentifierNode); ok && name.Ident == "printf" && !isPlain(c) {
			return c
		}
		return firstRefused(c.Args, refusedArgument)
	})
}

// isPlain reports whether the format of a call of printf is known, and does not pad.
func isPlain(call *parse.CommandNode) bool {
	if len(call.Args) < 2 {
		return false
	}
	format, ok := call.Args[1].(*parse.StringNode)
	return ok && plainFormat.MatchString(format.Text)
}

func refusedArgument(node parse.Node) parse.Node {
	switch n := node.(type) {
	case *parse.BoolNode, *parse.DotNode, *parse.FieldNode, *parse.NumberNode, *parse.StringNode:
		return nil
	case *parse.IdentifierNode:
		if slices.Contains(namingFunctions, n.Ident) {
			return nil
		}
	case *parse.VariableNode: // "$" is what a template is executed with. Others need a declaration.
		return nil
	case *parse.PipeNode:
		return refusedPipe(n)
	}
	return node
}

func firstRefused[N any](nodes []N, refused func(N) parse.Node) parse.Node {
	for _, node := range nodes {
		if found := refused(node); found != nil {
			return found
		}
	}
	return nil
}
