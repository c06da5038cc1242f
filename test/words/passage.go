package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// passage is text that is read in one go.
type passage struct {
	text string
	// parts says where the text comes from, in order. The first part begins at offset 0.
	parts []part
}

// part is the text from an offset on. Its first byte is in line.
type part struct {
	offset, line int
}

// lineAt returns the line of the file that contains the byte at offset.
func (p passage) lineAt(offset int) int {
	last := p.parts[0]
	for _, part := range p.parts {
		if part.offset > offset {
			break
		}
		last = part
	}
	return last.line + strings.Count(p.text[last.offset:offset], "\n")
}

// plain is a file in which all is read.
func plain(content string) []passage {
	return []passage{{text: content, parts: []part{{line: 1}}}}
}

var (
	// Text behind the mark begins a block only, and text with a backquote is a code span.
	fence = regexp.MustCompile("^\\s*(```+|~~~+)([^`]*)$")
	span  = regexp.MustCompile("`+[^`]+`+")
)

// markdown blanks fenced blocks. Code spans remain, because they are needed to recognize names.
func markdown(content string) []passage {
	lines := strings.Split(content, "\n")
	open := ""
	for i, line := range lines {
		mark := fence.FindStringSubmatch(line)
		switch {
		case open == "" && mark != nil:
			open, lines[i] = mark[1], ""
		case open != "":
			lines[i] = ""
			if len(mark) > 2 && strings.HasPrefix(mark[1], open) && strings.TrimSpace(mark[2]) == "" {
				open = ""
			}
		}
	}
	text := span.ReplaceAllStringFunc(strings.Join(lines, "\n"), blank)
	return plain(text)
}

// blank replaces all of code but line breaks.
func blank(code string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return '`'
	}, code)
}

var yamlKey = regexp.MustCompile(`(?m)^[\s-]*\w+:`)

// yamlText drops the keys, which are names.
func yamlText(content string) []passage {
	return plain(yamlKey.ReplaceAllStringFunc(content, blank))
}

// goText returns the strings of a Go file, and its identifiers as words.
func goText(name, content string) ([]passage, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []passage
	var visit func(ast.Node) bool
	visit = func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.Ident:
			found = append(found, passage{text: separate(n.Name), parts: []part{{line: set.Position(n.Pos()).Line}}})
		case *ast.BasicLit:
			found = append(found, sum(set, []ast.Expr{n}))
		case *ast.BinaryExpr:
			operands := operandsOf(n)
			found = append(found, sum(set, operands))
			for _, operand := range operands {
				if _, isLiteral := operand.(*ast.BasicLit); !isLiteral {
					ast.Inspect(operand, visit)
				}
			}
			return false
		}
		return true
	}
	ast.Inspect(file, visit)
	return found, nil
}

// operandsOf returns what an expression adds, from left to right.
func operandsOf(e ast.Expr) []ast.Expr {
	if b, isBinary := e.(*ast.BinaryExpr); isBinary {
		return append(operandsOf(b.X), operandsOf(b.Y)...)
	}
	return []ast.Expr{e}
}

// sum is the text of string literals that are added up. A line break separates what is between them.
func sum(set *token.FileSet, operands []ast.Expr) passage {
	var text strings.Builder
	var parts []part
	for _, operand := range operands {
		line := set.Position(operand.Pos()).Line
		parts = append(parts, part{offset: text.Len(), line: line})
		literal, isLiteral := operand.(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			text.WriteString(" % ")
			continue
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue // The parser accepted the literal, so this does not happen.
		}
		text.WriteString(value)
	}
	return passage{text: text.String(), parts: parts}
}

var hump = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// separate makes words of an identifier, but no phrases: addMend is "add|Mend".
func separate(identifier string) string {
	return strings.ReplaceAll(hump.ReplaceAllString(identifier, "$1|$2"), "_", "|")
}
