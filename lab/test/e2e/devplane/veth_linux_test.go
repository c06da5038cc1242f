package devplane_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// TestVeth reaches the API server from a host in another network namespace.
func TestVeth(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	if os.Geteuid() != 0 {
		t.Skip("network namespaces with a name need root")
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("a veth needs iproute2")
	}
	host := fmt.Sprintf("windlass-e2e-%d", os.Getpid())
	if out, err := exec.CommandContext(t.Context(), ip, "netns", "add", host).CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(ip, "netns", "delete", host).CombinedOutput(); err != nil {
			t.Errorf("deleting the namespace: %v: %s", err, out)
		}
	})
	config := b.config(t)
	config.BindAddress = netip.IPv4Unspecified()
	config.CertificateNames = []string{"plane.example.com"}
	config.Veth = &devplane.Veth{
		Name: "to-host", Address: netip.MustParsePrefix("10.88.0.1/24"),
		PeerName: "to-plane", PeerAddress: netip.MustParsePrefix("10.88.0.2/24"), PeerNamespace: host,
	}
	plane := start(t, config)
	kubectl := exec.CommandContext(t.Context(), ip, "netns", "exec", host,
		filepath.Join(b.assets, "bin", "kubectl"), "--kubeconfig", plane.KubeconfigPath(), "--server", "https://10.88.0.1:6443",
		"--tls-server-name", "plane.example.com", "get", "namespaces")
	out, err := kubectl.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kube-system") {
		t.Errorf("from the host: %v\n%s", err, out)
	}
}
