package apiserver_test

import (
	"os"
	"testing"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

// TestPrint prints the settings of kube-apiserver.
func TestPrint(t *testing.T) {
	if err := settings.Print(os.Stdout, "kube-apiserver", apiserver.NewAPIServerCommand().Flags()); err != nil {
		t.Fatal(err)
	}
}
