// Command kube-controller-manager prints the settings of kube-controller-manager.
package main

import (
	"log"
	"os"

	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

func main() {
	if err := settings.Print(os.Stdout, controllermanager.NewControllerManagerCommand().Flags()); err != nil {
		log.Fatal(err)
	}
}
