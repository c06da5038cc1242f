// Command kube-apiserver prints the settings of kube-apiserver.
package main

import (
	"log"
	"os"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

func main() {
	if err := settings.Print(os.Stdout, apiserver.NewAPIServerCommand().Flags()); err != nil {
		log.Fatal(err)
	}
}
