package main

import (
	"context"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	comments := flag.Bool("comments", false, "list the hits in Go comments")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: words [-comments] ROOT")
		os.Exit(2)
	}
	found, err := run(flag.Arg(0), *comments, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	case found > 0:
		fmt.Fprintf(os.Stderr, "words: %d hits. Fix: write what the line proposes.\n", found)
		os.Exit(1)
	}
}

// run prints the hits in the files of the repository at root, and returns their number.
func run(root string, comments bool, out io.Writer) (int, error) {
	files, err := exec.CommandContext(context.Background(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return 0, fmt.Errorf("listing the files of %s: %w", root, err)
	}
	matchers := compile(rules)
	found := 0
	for name := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		read := reader(name)
		if comments {
			read = nil
			if path.Ext(name) == ".go" && !generated.MatchString(name) {
				read = goComments
			}
		}
		if read == nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // Deleted, and the index still lists it.
		}
		if err != nil {
			return 0, err
		}
		passages, err := read(name, string(content))
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", name, err)
		}
		for _, hit := range check(passages, matchers) {
			fmt.Fprintf(out, "%s:%d: %q: use %q\n", name, hit.line, hit.word, hit.use)
			found++
		}
	}
	return found, nil
}

// generated are files that nobody writes by hand, and this table of words.
var generated = regexp.MustCompile(`(^|/)zz_generated|^test/words/`)

// reader returns how a file is read, or nil if it is not read.
func reader(name string) func(name, content string) ([]passage, error) {
	all := func(split func(string) []passage) func(string, string) ([]passage, error) {
		return func(_, content string) ([]passage, error) { return split(content), nil }
	}
	isTestdata := strings.Contains(name, "testdata/")
	switch ext := path.Ext(name); {
	case generated.MatchString(name), strings.HasSuffix(name, "_test.go"), ext == ".js":
		return nil
	case ext == ".go":
		return goText
	case ext == ".md":
		return all(markdown)
	case ext == ".yaml", ext == ".yml":
		return all(yamlText)
	case isTestdata, ext == ".sh", path.Base(name) == "Makefile", path.Base(name) == "Dockerfile":
		return all(plain)
	}
	return nil
}

// hit is a forbidden word.
type hit struct {
	line      int
	word, use string
}

// check returns the hits in passages by line.
func check(passages []passage, matchers []matcher) []hit {
	var hits []hit
	for _, p := range passages {
		for _, m := range matchers {
			for _, at := range m.FindAllStringIndex(p.text, -1) {
				if isName(p.text, at[0], at[1]) {
					continue
				}
				word := strings.Join(strings.Fields(p.text[at[0]:at[1]]), " ")
				hits = append(hits, hit{line: p.lineAt(at[0]), word: word, use: m.use})
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.line - b.line })
	return hits
}

// isName reports whether text[from:to] is in quotes of its own.
func isName(text string, from, to int) bool {
	if from == 0 || to == len(text) {
		return false
	}
	return text[from-1] == text[to] && strings.IndexByte("\"`", text[to]) >= 0
}

// goComments returns the comments of a Go file.
func goComments(name, content string) ([]passage, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var found []passage
	for _, group := range file.Comments {
		var p passage
		for _, comment := range group.List {
			p.parts = append(p.parts, part{offset: len(p.text), line: set.Position(comment.Pos()).Line})
			p.text += strings.TrimLeft(comment.Text, "/*") + "\n"
		}
		found = append(found, p)
	}
	return found, nil
}
