package hosts

import (
	"context"
	"fmt"
	"strings"

	core "github.com/windlass-dev/windlass/internal/core/hosts"
	"github.com/windlass-dev/windlass/internal/port"
)

// identify returns nil for a host that is the one of the Machine's node, before anything else runs on it. Whoever writes a Machine's addresses and node chooses
// where the connection leads, and a certificate authority for hosts' keys may serve many clusters.
//
// A Node's provider ID never changes. A Node that cannot be read is not compared with the Machine, because an upgrade may be what brings its API server back;
// the host's own identity always is.
func (u *Updater) identify(ctx context.Context, goal core.Goal, target Target, machine Machine, host port.Host) (*core.Failure, error) {
	if found, err := u.options.ProviderID(ctx, target.Cluster, target.Node); err == nil && found != machine.ProviderID {
		return &core.Failure{Reason: core.WrongHost, Message: fmt.Sprintf("Node %s has the provider ID %q, but the Machine has %q. Nothing was done. "+
			"Fix: status.nodeRef of the Machine must name its own Node", target.Node, found, machine.ProviderID)}, nil
	}
	pem, err := u.options.Authorities(ctx, target.Cluster)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority of Cluster %s: %w", target.Cluster, err)
	}
	want := core.Identity{Node: target.Node}
	if want.Authorities, err = core.ParseCertificates(pem); err != nil {
		return nil, setup("the kubeconfig of Cluster %s: %w", target.Cluster, err)
	}
	result, err := host.Exec(ctx, port.HostCommand{Script: core.IdentityScript(goal)})
	if err != nil {
		return nil, fmt.Errorf("reading the host's facts: %w", err)
	}
	if result.ExitCode != 0 {
		return nil, fmt.Errorf("reading the host's facts: exit code %d: %s", result.ExitCode, core.Mask(strings.Join(strings.Fields(result.Stderr), " ")))
	}
	got, err := core.ParseIdentity(string(result.Stdout))
	if err != nil {
		return nil, err
	}
	return core.CheckIdentity(want, got), nil
}
