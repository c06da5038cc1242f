package controllermanager_test

import (
	"os"
	"testing"

	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

// TestPrint prints the settings of kube-controller-manager.
func TestPrint(t *testing.T) {
	if err := settings.Print(os.Stdout, "kube-controller-manager", controllermanager.NewControllerManagerCommand().Flags()); err != nil {
		t.Fatal(err)
	}
}
