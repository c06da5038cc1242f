package scheduler_test

import (
	"os"
	"testing"

	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

// TestPrint prints the settings of kube-scheduler.
func TestPrint(t *testing.T) {
	if err := settings.Print(os.Stdout, "kube-scheduler", scheduler.NewSchedulerCommand().Flags()); err != nil {
		t.Fatal(err)
	}
}
