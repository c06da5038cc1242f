package hosts

import (
	"context"
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
)

// identify returns nil for a host that is the one of the Machine's node, before anything else runs
// on it. Whoever writes a Machine's addresses and node chooses where the connection leads, and a
// certificate authority for hosts' keys may serve many clusters.
//
// The host is compared with the certificate authorities in the Cluster's kubeconfig. These are not
// secret, so whoever writes the kubeconfig can name those of another cluster. The API server must
// prove them: it answers under them, to the kubeconfig's credentials, that the Machine's node has
// the Machine's provider ID. Once a step has begun, the proof on the host counts instead, for later
// operations, too: an upgrade takes the API server away, and another one may be what brings it back.
//
// proof is what to keep on the host with each step.
func (u *Updater) identify(
	ctx context.Context, goal linuxhost.Goal, target Target, machine Machine, host port.Host,
) (proof string, wrong *linuxhost.Failure, err error) {
	found, pem, unproved := u.options.ProveNode(ctx, target.Cluster, target.Node)
	if unproved == nil && found != machine.ProviderID {
		return "", &linuxhost.Failure{Reason: linuxhost.WrongHost, Message: fmt.Sprintf(
			"Node %s has the provider ID %q, but the Machine has %q. Nothing was done. "+
				"Fix: status.nodeRef of the Machine must name its own Node",
			target.Node, found, machine.ProviderID)}, nil
	}
	if unproved != nil && pem == nil {
		return "", nil, fmt.Errorf("reading the certificate authority of Cluster %s: %w",
			target.Cluster, unproved)
	}
	want := linuxhost.Identity{Node: target.Node}
	if want.Authorities, err = linuxhost.ParseCertificates(pem); err != nil {
		return "", nil, setup("the kubeconfig of Cluster %s: %w", target.Cluster, err)
	}
	got, err := readIdentity(ctx, goal, host)
	if err != nil {
		return "", nil, err
	}
	if wrong := linuxhost.CheckIdentity(want, got); wrong != nil {
		return "", wrong, nil
	}
	proof = linuxhost.Proof(target.Machine.String(), string(machine.UID), machine.ProviderID, want)
	if unproved != nil && got.Proof != proof {
		return "", nil, fmt.Errorf("the API server has not confirmed Node %s, so nobody knows whose the "+
			"host is: %w. Nothing is begun before it does. Fix: correct the kubeconfig of the Machine's "+
			"Cluster, or the API server", target.Node, unproved)
	}
	return proof, nil, nil
}

func readIdentity(ctx context.Context, goal linuxhost.Goal, host port.Host) (linuxhost.Identity, error) {
	result, err := host.Exec(ctx, port.HostCommand{Script: linuxhost.IdentityScript(goal)})
	if err != nil {
		return linuxhost.Identity{}, fmt.Errorf("reading the host's facts: %w", err)
	}
	if result.ExitCode != 0 {
		return linuxhost.Identity{}, fmt.Errorf("reading the host's facts: exit code %d: %s", result.ExitCode,
			linuxhost.Mask(strings.Join(strings.Fields(result.Stderr), " ")))
	}
	return linuxhost.ParseIdentity(string(result.Stdout))
}
