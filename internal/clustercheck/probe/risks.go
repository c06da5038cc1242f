package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/pkg/version"
)

// risks judges the known risks, by the oldest etcd that runs, by what Nodes report, and by facts of
// the cluster. Without its Pods, what versions bring counts.
func (s scout) risks(
	ctx context.Context, nodes []corev1.Node, pods []preflight.EtcdPod, unlisted error,
) {
	known := s.o.Risks
	if len(nodes) > 0 {
		hosts := make([]risks.Host, 0, len(nodes))
		for i := range nodes {
			host := risks.HostOf(&nodes[i].Status.NodeInfo)
			host.Unverified = slices.Contains(s.o.Settings.Unverified, nodes[i].Name)
			hosts = append(hosts, host)
		}
		known.Facts.Hosts = risks.Kinds(hosts)
	}
	known.Facts.RunningAt = s.o.Upgrade.From
	for _, pod := range pods {
		if pod.Version.IsZero() {
			known.Facts.RunningEtcd = version.Version{}
			break
		}
		running := known.Facts.RunningEtcd
		if running.IsZero() || version.Compare(pod.Version, running) == version.Less {
			known.Facts.RunningEtcd = pod.Version
		}
	}
	known.Facts.Cluster = s.clusterFacts(ctx, known)
	findings := preflight.CheckRisks(known)
	if unlisted != nil {
		if len(known.Known.OfAll(known.Facts, known.Steps)) == 0 {
			findings = nil
		}
		findings = append(findings,
			notChecked(preflight.KnownRisks, "the version of etcd that runs: ", unlisted))
	}
	s.judge(preflight.KnownRisks, nil, func() []clustercheck.Finding { return findings })
}

// etcdVersion returns the version that the tag of a Pod's image names, zero if it names none.
func etcdVersion(pod *corev1.Pod) version.Version {
	for _, c := range pod.Spec.Containers {
		name := c.Image[strings.LastIndex(c.Image, "/")+1:]
		name, _, _ = strings.Cut(name, "@")
		if image, tag, tagged := strings.Cut(name, ":"); tagged && strings.HasSuffix(image, "etcd") {
			return risks.EtcdOfTag(tag)
		}
	}
	return version.Version{}
}

// clusterFacts asks for the facts of the cluster that decide about risks on the way and that are not
// known, and for no others. A fact that cannot be read stays unknown.
func (s scout) clusterFacts(
	ctx context.Context, known preflight.Risks,
) map[risks.ClusterFact]risks.Answer {
	facts := make(map[risks.ClusterFact]risks.Answer)
	maps.Copy(facts, known.Facts.Cluster)
	for _, fact := range known.Known.Unknown(known.Facts, known.Steps) {
		err := s.within(ctx, string(fact), func(ctx context.Context) (err error) {
			facts[fact], err = s.askFact(ctx, fact)
			return err
		})
		if err != nil {
			delete(facts, fact)
		}
	}
	return facts
}

func (s scout) askFact(ctx context.Context, fact risks.ClusterFact) (risks.Answer, error) {
	switch fact {
	case risks.HasDevices:
		return s.hasDevices(ctx)
	case risks.KubeletClientUnbound:
		return s.unboundKubeletClient(ctx)
	case risks.Traefik2Values:
		return s.traefikValues(ctx)
	case risks.K0sPinnedImages:
		return s.k0sImages(ctx)
	case risks.DqliteDatastore, risks.NginxImagesMissing: // The control plane object shows it.
	}
	return risks.Answer{}, nil
}

// read reads a path; found is false if the API server does not have it.
func (s scout) read(
	ctx context.Context, path string, limit string, into any,
) (found bool, err error) {
	request := s.Remote.Discovery().RESTClient().Get().AbsPath(path)
	if limit != "" {
		request = request.Param("limit", limit)
	}
	body, err := request.DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = untrusted.Object.Unmarshal(body, into)
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", path, err)
	}
	return true, nil
}

// hasDevices asks for one DeviceClass, and then for one ResourceClaim.
func (s scout) hasDevices(ctx context.Context) (risks.Answer, error) {
	const group = "/apis/resource.k8s.io"
	var served metav1.APIGroup
	if found, err := s.read(ctx, group, "", &served); err != nil || !found {
		return risks.Answer{Known: err == nil}, err
	}
	for _, kinds := range []string{"deviceclasses", "resourceclaims"} {
		var page struct {
			Items []json.RawMessage `json:"items"`
		}
		found, err := s.read(ctx, group+"/"+served.PreferredVersion.Version+"/"+kinds, "1", &page)
		if err != nil {
			return risks.Answer{}, err
		}
		if found && len(page.Items) > 0 {
			seen := "it has " + kinds + " of resource.k8s.io"
			return risks.Answer{Known: true, Holds: true, Seen: seen}, nil
		}
	}
	return risks.Answer{Known: true}, nil
}

// unboundKubeletClient asks for the ClusterRoleBinding unless the provider makes it.
func (s scout) unboundKubeletClient(ctx context.Context) (risks.Answer, error) {
	provider := s.o.KubeadmProvider
	if a := risks.UnboundKubeletClient(provider, risks.Answer{}); a.Known {
		return a, nil
	}
	var binding metav1.PartialObjectMetadata
	found, err := s.read(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"+
		"kubeadm:apiserver-kubelet-client", "", &binding)
	return risks.UnboundKubeletClient(provider, risks.Answer{Known: err == nil, Holds: found}), err
}

// traefikValues asks for the values that an owner gives to the packaged chart of Traefik, and if
// the chart of Traefik 3 refuses them, whether the chart is in use.
func (s scout) traefikValues(ctx context.Context) (risks.Answer, error) {
	name := "traefik"
	if s.o.Risks.Facts.DistributionOf(s.o.Upgrade.To) == risks.RKE2 {
		name = "rke2-traefik"
	}
	const in = "/apis/helm.cattle.io/v1/namespaces/" + metav1.NamespaceSystem + "/"
	var config struct {
		Spec struct {
			ValuesContent string `json:"valuesContent"`
		} `json:"spec"`
	}
	if found, err := s.read(ctx, in+"helmchartconfigs/"+name, "", &config); err != nil || !found {
		return risks.Answer{Known: err == nil}, err
	}
	var values map[string]any
	content := []byte(config.Spec.ValuesContent)
	if err := untrusted.Object.UnmarshalYAML(content, &values); err != nil {
		return risks.Answer{}, fmt.Errorf("the values of Traefik's chart: %w", err)
	}
	refused := preflight.Traefik2Values(values)
	if refused == "" {
		return risks.Answer{Known: true}, nil
	}
	var chart metav1.PartialObjectMetadata
	if found, err := s.read(ctx, in+"helmcharts/"+name, "", &chart); err != nil || !found {
		return risks.Answer{Known: err == nil}, err
	}
	return risks.Answer{
		Known: true, Holds: true,
		Seen: "HelmChartConfig " + metav1.NamespaceSystem + "/" + name + " has " + refused,
	}, nil
}

// k0sImages asks for the dynamic configuration of k0s.
func (s scout) k0sImages(ctx context.Context) (risks.Answer, error) {
	const path = "/apis/k0s.k0sproject.io/v1beta1/namespaces/" + metav1.NamespaceSystem +
		"/clusterconfigs/k0s"
	var config map[string]any
	if found, err := s.read(ctx, path, "", &config); err != nil || !found {
		return risks.Answer{Known: err == nil}, err
	}
	pins := risks.PinnedImages(config)
	return risks.Answer{
		Known: true, Holds: pins != "",
		Seen: "ClusterConfig " + metav1.NamespaceSystem + "/k0s: " + pins,
	}, nil
}
