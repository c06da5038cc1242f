package updatercmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpdaterDigests writes a manifest for a signature and one without.
func TestUpdaterDigests(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "v1.36.3", "linux", "amd64", "kubelet")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const line = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  v1.36.3/linux/amd64/kubelet\n"
	for args, want := range map[string]string{
		"":                                line,
		"--serial 7 --expires 2127-06-30": "# windlass-manifest v1 serial=7 expires=2127-06-30T00:00:00Z\n" + line,
		"--serial 7 --expires 2127-06-30T12:00:00+02:00": "# windlass-manifest v1 serial=7 expires=2127-06-30T10:00:00Z\n" + line,
		"--serial 7":                       "--expires",
		"--expires 2127-06-30":             "--serial",
		"--serial -1 --expires 2127-06-30": "--serial",
		"--serial 7 --expires 2020-01-01":  "--expires",
		"--serial 7 --expires soon":        "--expires",
	} {
		cmd := newDigests()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{folder}, strings.Fields(args)...))
		err := cmd.Execute()
		if strings.HasPrefix(want, "--") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want an error about %s", args, err, want)
			}
			continue
		}
		if err != nil || out.String() != want {
			t.Errorf("%q: got %v and\n%s", args, err, out.String())
		}
	}
}
