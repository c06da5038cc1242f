package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?\n *```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// dropped is what the anchor of a heading does not have.
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		title := link.ReplaceAllString(strings.TrimSpace(found[1]), "")
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
	}
	return all
}

// TestLinks: links of documents to files of the repository lead to one, and to a heading of it, and
// docs/README.md leads to every page of docs.
func TestLinks(t *testing.T) {
	t.Parallel()
	listed, pages := map[string]bool{}, []string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "dist") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		if strings.HasPrefix(path, filepath.Join("..", "docs")) {
			pages = append(pages, path)
		}
		for _, found := range link.FindAllStringSubmatch(readText(t, path), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(path), found[1])
			if found[1] == "" {
				target = path
			}
			if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s links to %s, which does not exist", path, found[1])
			} else if found[2] != "" && filepath.Ext(target) == ".md" && !anchors(readText(t, target))[found[2]] {
				t.Errorf("%s links to %s#%s, which has no such heading", path, found[1], found[2])
			}
			listed[target] = listed[target] || path == filepath.Join("..", "docs", "README.md")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if !listed[page] && filepath.Base(page) != "README.md" {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}
