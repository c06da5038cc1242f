package updatercmd

import (
	"strings"
	"testing"
)

// TestRunTellsOfACordon: a run without a look at the node tells at its end that an earlier run
// cordoned it.
func TestRunTellsOfACordon(t *testing.T) {
	const done = "done: host 10.0.0.7 is at v1.36.3"
	for cordoned, want := range map[bool]string{
		true: done + "; an earlier run cordoned the node, and nobody has looked whether it still is. " +
			"Fix: kubectl uncordon NODE\n",
		false: done + "\n",
	} {
		h := &scriptedHost{done: true, cordoned: cordoned}
		var r scriptedRun
		if err := r.run(t, h, 10, "--no-drain"); err != nil {
			t.Fatal(err)
		}
		if got := r.out.String(); !strings.HasSuffix(got, want) {
			t.Errorf("it prints %q, want %q at the end", got, want)
		}
	}
}
