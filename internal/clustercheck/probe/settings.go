package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// configMapSource is a ConfigMap of kube-system with a configuration.
type configMapSource struct {
	name, key string
	read      func(settings.Place, map[string]any) []settings.Use
}

const (
	kubeadmConfig = "kubeadm-config"
	kubeletConfig = "kubelet-config"
)

// configMapSources are those that kubeadm writes. It writes the kubelet's to each node that it
// upgrades.
var configMapSources = []configMapSource{
	{kubeadmConfig, "ClusterConfiguration", func(p settings.Place, c map[string]any) []settings.Use {
		// kubeadm only prints a warning about gates of its own that it finds there.
		return slices.DeleteFunc(settings.FromCluster(p, c), func(u settings.Use) bool {
			return u.Component == settings.Kubeadm
		})
	}},
	{kubeletConfig, "kubelet", settings.FromKubelet},
	{"kube-proxy", "config.conf", func(p settings.Place, config map[string]any) []settings.Use {
		return settings.GatesOf(p, settings.Proxy, config)
	}},
}

// settings judges the settings of the management cluster's objects, of kubeadm's ConfigMaps, and of
// the kubelets that run.
func (s scout) settings(ctx context.Context, nodes []corev1.Node) {
	all := s.o.Settings
	var written []settings.Use
	for _, source := range configMapSources {
		if source.name == kubeadmConfig && all.ControlPlaneWrites {
			// Before it upgrades the first machine. Until then the ConfigMap may have what was removed.
			continue
		}
		uses, err := s.readConfigMap(ctx, source)
		if err != nil {
			all.Unread = append(all.Unread, preflight.Unread{User: clustercheck.ClusterUser, Err: err})
		}
		all.Uses = append(all.Uses, uses...)
		if source.name == kubeletConfig {
			written = uses
		}
	}
	uses, unasked := s.readKubelets(ctx, nodes, written)
	all.Unasked = unasked
	all.Uses = append(all.Uses, uses...)
	s.judge(preflight.RemovedSettings, nil, func() []clustercheck.Finding {
		return preflight.CheckSettings(s.o.Upgrade, all)
	})
}

// readConfigMap returns the settings in a ConfigMap; none if it does not exist, as in a cluster that
// kubeadm has not made.
func (s scout) readConfigMap(
	ctx context.Context, source configMapSource,
) (uses []settings.Use, err error) {
	what := "ConfigMap " + metav1.NamespaceSystem + "/" + source.name
	err = s.within(ctx, what, func(ctx context.Context) error {
		object, err := s.Remote.CoreV1().ConfigMaps(metav1.NamespaceSystem).
			Get(ctx, source.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // within names what was read.
		}
		var config map[string]any
		if err := untrusted.Object.UnmarshalYAML([]byte(object.Data[source.key]), &config); err != nil {
			return fmt.Errorf("key %s: %w", source.key, err)
		}
		uses = source.read(settings.Place{Object: what, Path: source.key}, config)
		return nil
	})
	return uses, err
}

// maxKubelets bounds how many kubelets are asked for their configuration: those of one pool have the
// same.
const maxKubelets = 50

// readKubelets returns the feature gates that running kubelets are given. Their other fields have
// defaults there, which say nothing about what is configured. unasked says which kubelets did not
// answer; empty for none.
//
// written are the settings of kubeadm's ConfigMap; none if there is none. kubeadm writes them to each
// machine that it upgrades, so a gate that is not among them is passing, unless the host alone has it.
// Updaters look for that.
func (s scout) readKubelets(
	ctx context.Context, nodes []corev1.Node, written []settings.Use,
) (uses []settings.Use, unasked string) {
	type gateUse struct {
		settings.Arg
		passing bool
	}
	byGate := map[gateUse][]string{}
	isRewritten := func(gate settings.Arg) bool {
		return len(written) > 0 && !slices.ContainsFunc(written, func(u settings.Use) bool {
			return u.Kind == settings.Gate && u.Name == gate.Name
		})
	}
	failed := text.Some{Most: shownNodes}
	var problem error
	_ = s.within(ctx, "configz", func(ctx context.Context) error {
		for i := range nodes[:min(len(nodes), maxKubelets)] {
			name := nodes[i].Name
			if nodes[i].Status.NodeInfo.ContainerRuntimeVersion == "" {
				// It is simulated: no kubelet answers.
				continue
			}
			gates, err := s.readGates(ctx, name)
			if err != nil {
				if failed.Len() == 0 {
					problem = err
				}
				failed.Add(name)
			}
			kept := slices.Contains(s.o.Settings.Kept, name)
			for _, gate := range gates {
				use := gateUse{gate, !kept || isRewritten(gate)}
				byGate[use] = append(byGate[use], name)
			}
		}
		return nil
	})
	for gate, on := range byGate {
		uses = append(uses, settings.Use{
			Object: "Node " + text.JoinSome(on, shownNodes, ", "), Path: "configz",
			Component: settings.Kubelet, Kind: settings.Gate, Name: gate.Name, Value: gate.Value,
			Running: true, Passing: gate.passing,
		})
	}
	if failed.Len() > 0 {
		unasked = fmt.Sprintf("the kubelet of Node %s could not be asked for its feature gates: %v",
			failed.Join(", "), problem)
	}
	return uses, text.Bound(unasked, maxMessageBytes)
}

// shownNodes is how many Nodes a message names.
const shownNodes = 3

// readGates asks the kubelet of a Node for its feature gates.
func (s scout) readGates(ctx context.Context, node string) ([]settings.Arg, error) {
	answer, err := s.Remote.Discovery().RESTClient().Get().
		AbsPath("/api/v1/nodes", node, "proxy/configz").DoRaw(ctx)
	if err != nil {
		return nil, withStatus(answer, err)
	}
	var shown struct {
		Kubelet struct {
			FeatureGates map[string]bool `json:"featureGates"`
		} `json:"kubeletconfig"`
	}
	if err := untrusted.Object.Unmarshal(answer, &shown); err != nil {
		return nil, errors.New("the answer is no configuration of a kubelet")
	}
	var gates []settings.Arg
	for name, on := range shown.Kubelet.FeatureGates {
		gates = append(gates, settings.Arg{Name: name, Value: strconv.FormatBool(on)})
	}
	return gates, nil
}
