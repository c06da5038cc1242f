package hosts

import (
	"context"
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
)

// claim is what a host must show to be the one of a Machine's node.
type claim struct {
	want linuxhost.Identity
	// proof is what to keep on the host with each step.
	proof string
	// unproved says why the API server has not confirmed the claim; nil if it has.
	unproved error
}

// prove makes a claim before the host is connected to. Whoever writes a Machine's addresses and node
// chooses where the connection leads, and a certificate authority for hosts' keys may serve many
// clusters.
//
// The host is compared with the certificate authorities in the Cluster's kubeconfig. These are not
// secret, so whoever writes the kubeconfig can name those of another cluster. The API server must
// prove them: it answers under them, to the kubeconfig's credentials, that the Machine's node has
// the Machine's provider ID. Nodes without one are equal in that, so an empty one proves nothing.
// Once a step has begun, the proof on the host counts instead, for later operations, too: an
// upgrade takes the API server away, and another one may be what brings it back.
func (u *Updater) prove(ctx context.Context, target Target, machine Machine) (claim, *linuxhost.Failure, error) {
	found, pem, unproved := u.options.ProveNode(ctx, target.Cluster, target.Node)
	if unproved == nil && machine.ProviderID == "" {
		return claim{}, &linuxhost.Failure{Reason: linuxhost.WrongHost, Message: fmt.Sprintf(
			"Machine %s has no spec.providerID, so nothing shows that Node %s is its own. Nothing was "+
				"done. Fix: have the infrastructure provider set spec.providerID of the infrastructure "+
				"machine and of the Node", target.Machine, target.Node)}, nil
	}
	if unproved == nil && found != machine.ProviderID {
		return claim{}, &linuxhost.Failure{Reason: linuxhost.WrongHost, Message: fmt.Sprintf(
			"Node %s has the provider ID %q, but the Machine has %q. Nothing was done. "+
				"Fix: status.nodeRef of the Machine must name its own Node",
			target.Node, found, machine.ProviderID)}, nil
	}
	if unproved != nil && pem == nil {
		return claim{}, nil, fmt.Errorf("reading the certificate authority of Cluster %s: %w",
			target.Cluster, unproved)
	}
	authorities, err := linuxhost.ParseCertificates(pem)
	if err != nil {
		return claim{}, nil, setup("the kubeconfig of Cluster %s: %w", target.Cluster, err)
	}
	want := linuxhost.Identity{Node: target.Node, Authorities: authorities}
	proof := linuxhost.Proof(target.Machine.String(), string(machine.UID), machine.ProviderID, want)
	return claim{want: want, proof: proof, unproved: unproved}, nil, nil
}

// check compares a host with a claim, before anything else runs on the host.
func (c claim) check(ctx context.Context, goal linuxhost.Goal, host port.Host) (wrong *linuxhost.Failure, err error) {
	got, err := readIdentity(ctx, goal, host)
	if err != nil {
		return nil, err
	}
	if wrong := linuxhost.CheckIdentity(c.want, got); wrong != nil {
		return wrong, nil
	}
	if c.unproved != nil && got.Proof != c.proof {
		return nil, fmt.Errorf("the API server has not confirmed Node %s, so nobody knows whose the "+
			"host is: %w. Nothing is begun before it does. Fix: correct the kubeconfig of the Machine's "+
			"Cluster, or the API server", c.want.Node, c.unproved)
	}
	return nil, nil //nolint:nilnil // The host is the Machine's own.
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
