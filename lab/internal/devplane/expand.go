package devplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// expand replaces the references $(NAME) in text; "$$(" stands for "$(".
func expand(text string, values map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$(")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, ")")
		if strings.HasSuffix(before, "$") {
			out.WriteString("(")
			text = rest
			continue
		}
		value, known := values[name]
		if !closed || !known {
			return "", fmt.Errorf("$(%s) in %q is not known: the references are %s", name, text, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
		out.WriteString(value)
		text = after
	}
}

// expandAll returns a new slice.
func expandAll(texts []string, values map[string]string) ([]string, error) {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		expanded, err := expand(text, values)
		if err != nil {
			return nil, err
		}
		out = append(out, expanded)
	}
	return out, nil
}

// expandChild replaces the references in everything that may have them; the receiver's slices are not changed.
func expandChild(c Child, values map[string]string) (Child, error) {
	var err error
	if c.Args, err = expandAll(c.Args, values); err != nil {
		return Child{}, fmt.Errorf("arguments of %s: %w", c.Name, err)
	}
	if c.Env, err = expandAll(c.Env, values); err != nil {
		return Child{}, fmt.Errorf("environment of %s: %w", c.Name, err)
	}
	if c.Ready.URL, err = expand(c.Ready.URL, values); err != nil {
		return Child{}, fmt.Errorf("readiness URL of %s: %w", c.Name, err)
	}
	if c.Ready.TCP, err = expand(c.Ready.TCP, values); err != nil {
		return Child{}, fmt.Errorf("readiness address of %s: %w", c.Name, err)
	}
	return c, nil
}
