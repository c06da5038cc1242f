package proxy_test

import (
	"os"
	"testing"

	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

// TestPrint prints the settings of kube-proxy.
func TestPrint(t *testing.T) {
	flags := proxy.NewProxyCommand().Flags()
	// It has these on Windows only: init_windows.go.
	for _, name := range []string{
		"windows-service", "source-vip", "network-name", "enable-dsr", "root-hnsendpoint-name",
		"forward-healthcheck-vip",
	} {
		flags.String(name, "", "")
	}
	if err := settings.Print(os.Stdout, "kube-proxy", flags); err != nil {
		t.Fatal(err)
	}
}
