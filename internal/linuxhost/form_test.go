package linuxhost

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
	"github.com/windlass-dev/windlass/pkg/version"
)

// hostState matches what scripts name below the folders of the state: a file, or a mark, which is a
// file of the operation.
var hostState = regexp.MustCompile(`\$(?:STATE|KEEP|OP|job|new)/[a-z][a-z./-]*|\bmark(?:ed)? "?[a-z-]+`)

// TestHostForm: a host keeps what another release has begun on it. A release that looked for an
// upgrade under another name, or for a mark in another file, would begin it again.
func TestHostForm(t *testing.T) {
	t.Parallel()
	var lines []string
	id := regexp.MustCompile(`(?m)^ID='(.*)'$`)
	for d, v := range map[Distribution]string{Kubeadm: "v1.36.3", RKE2: "v1.36.3+rke2r1", K3s: "v1.36.3+k3s1"} {
		g := Goal{
			Distribution: d, Version: version.MustParse(v),
			Digests: digestsOfAll(t), PatchesFolder: "/etc/kubernetes/patches",
			Files: []File{{
				Path: "/etc/kubernetes/a", Owner: "root:root", Permissions: "0600", Content: []byte("a"),
			}},
			Before: []string{"true"}, After: []string{"false"}, KubeletArgs: []Arg{{Name: "v", Value: "2"}},
		}
		start := StartScript(g, KubeadmUpgrade, "u1-1", "proof", Run{Limit: commandLimit})
		lines = append(lines, fmt.Sprintf("operation of %s: %s", d, g.Operation()),
			fmt.Sprintf("job of %s: %s", d, id.FindStringSubmatch(start)[1]))
	}
	slices.Sort(lines)
	node := Identity{Node: "m", Authorities: [][]byte{[]byte("ca")}}
	lines = append(lines, "proof: "+Proof("ns/m", "uid", "kwok://m", node), "state: "+StateFolder)
	found := map[string]bool{}
	for _, file := range scriptFiles(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range hostState.FindAllString(string(content), -1) {
			found[strings.Replace(strings.Replace(name, "marked", "mark", 1), `"`, "", 1)] = true
		}
	}
	lines = append(lines, slices.Sorted(maps.Keys(found))...)
	text := strings.Join(lines, "\n")
	formtest.Text(t, "linux-host", text, func(form string) error {
		for line := range strings.Lines(form) {
			if !slices.Contains(lines, strings.TrimSuffix(line, "\n")) {
				return errors.New("today's hosts have no " + line)
			}
		}
		return nil
	})
}
