// Command kube-proxy prints the settings of kube-proxy.
package main

import (
	"log"
	"os"

	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

func main() {
	if err := settings.Print(os.Stdout, proxy.NewProxyCommand().Flags()); err != nil {
		log.Fatal(err)
	}
}
