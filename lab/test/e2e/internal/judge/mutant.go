package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is a change of the program that makes its status wrong.
type Mutant struct {
	Name string
	// File is that of the change, from the root of the repository. It has Old once.
	File, Old, New string
}

// Build builds windlass with the mutant into a folder. The files of the repository stay as they
// are.
func (m Mutant) Build(ctx context.Context, root, folder string) (windlass string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", fmt.Errorf("building mutant %q: %w", m.Name, err)
	}
	file := filepath.Join(root, m.File)
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("building mutant %q: %w", m.Name, err)
	}
	if n := strings.Count(string(content), m.Old); n != 1 {
		return "", fmt.Errorf("mutant %q: %s has its text %d times, want once: %q",
			m.Name, m.File, n, m.Old)
	}
	changed := filepath.Join(folder, "mutant.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", fmt.Errorf("building mutant %q: %w", m.Name, err)
	}
	list := filepath.Join(folder, "overlay.json")
	for path, text := range map[string]string{
		changed: strings.Replace(string(content), m.Old, m.New, 1), list: string(overlay),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("building mutant %q: %w", m.Name, err)
		}
	}
	windlass = filepath.Join(folder, "windlass")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w",
		"-overlay", list, "-o", windlass, "./cmd/windlass")
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building mutant %q: %w\n%s", m.Name, err, output)
	}
	return windlass, nil
}
