// Command kube-scheduler prints the settings of kube-scheduler.
package main

import (
	"log"
	"os"

	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

func main() {
	if err := settings.Print(os.Stdout, scheduler.NewSchedulerCommand().Flags()); err != nil {
		log.Fatal(err)
	}
}
