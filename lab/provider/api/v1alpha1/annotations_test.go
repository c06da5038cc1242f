package v1alpha1

import (
	"os"
	"strings"
	"testing"
)

// TestFaultsAreDocumented: the guide of the lab names each annotation that makes a host suffer.
func TestFaultsAreDocumented(t *testing.T) {
	guide, err := os.ReadFile("../../../../docs/how-to/use-the-lab.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, annotation := range []string{
		PowerOffAnnotation, DiskFullAnnotation, NetworkLostAnnotation, SlowDiskAnnotation,
	} {
		if !strings.Contains(string(guide), "| `"+annotation+"` |") {
			t.Errorf("docs/how-to/use-the-lab.md does not name %s", annotation)
		}
	}
}
