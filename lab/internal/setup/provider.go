package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/provider/crds"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// Names of the infrastructure provider's processes on a plane.
const (
	SiteName         = "host-site"
	HostProviderName = "host-provider"

	siteSocket = "site.sock"
)

// RemoveSiteSocket removes the socket that a site leaves in a state directory if it is killed.
// Anything else of that name stays.
func RemoveSiteSocket(stateDir string) error {
	path := filepath.Join(stateDir, siteSocket)
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return nil //nolint:nilerr // There is no socket.
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket of the hosts: %w", err)
	}
	return nil
}

// AddHostProvider installs the infrastructure provider whose machines are hosts on a plane, which must not be isolated:
// managers connect to the hosts. executable is the windlass-lab binary; arguments are those of its site command. It
// returns a client of the site.
func AddHostProvider(ctx context.Context, plane *devplane.Plane, stateDir, executable string, arguments ...string) (*site.Client, error) {
	c, err := Connect(plane)
	if err != nil {
		return nil, err
	}
	if err := installCRDs(ctx, c, crds.Files, "*.yaml"); err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	for _, child := range []devplane.Child{
		{
			Name: SiteName, Path: executable,
			// Go's caches: the site builds the init of its hosts.
			Env:   []string{"HOME=" + home},
			Args:  append([]string{"site", "--socket", siteSocket, "--health-addr", "127.0.0.1:$(PORT_health)"}, arguments...),
			Ports: []string{"health"}, Ready: devplane.Readiness{URL: "http://127.0.0.1:$(PORT_health)/"},
			StopTimeout: time.Minute,
		},
		{
			Name: HostProviderName, Path: executable,
			Args: []string{
				"provider", "--site", siteSocket, "--kubeconfig", "$(KUBECONFIG)", "--health-addr", "127.0.0.1:$(PORT_health)",
			},
			Ports: []string{"health"}, Ready: devplane.Readiness{URL: "http://127.0.0.1:$(PORT_health)/readyz"},
			Restart: devplane.RestartAlways,
		},
	} {
		if _, err := plane.AddChild(ctx, child); err != nil {
			return nil, fmt.Errorf("starting the infrastructure provider: %w", err)
		}
	}
	return site.NewClient(filepath.Join(stateDir, siteSocket)), nil
}
