//go:build linux

package hosts_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// providerVersion is that of the kinds that an infrastructure provider and a control plane provider would bring.
var providerVersion = schema.GroupVersion{Group: "hosts.e2e.windlass.dev", Version: "v1"}

// Kinds of that version.
const (
	hostMachineKind      = "HostMachine"
	hostControlPlaneKind = "HostControlPlane"
)

// createProviderKinds creates the kinds of providers: by Cluster API's contract, and without a schema.
func (p *plane) createProviderKinds(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, kind := range []string{hostMachineKind, "HostMachineTemplate", hostControlPlaneKind} {
		plural := strings.ToLower(kind) + "s"
		p.create(ctx, t, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{
				Name: plural + "." + providerVersion.Group, Labels: map[string]string{clusterv1.GroupVersion.String(): providerVersion.Version},
			},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: providerVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: providerVersion.Version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true),
					}},
				}},
			},
		})
		await(ctx, t, p, "waiting for kind "+kind, &apiextensionsv1.CustomResourceDefinitionList{}, func(c *apiextensionsv1.CustomResourceDefinition) string {
			for _, condition := range c.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return ""
				}
			}
			return "it is not served"
		}, setup.Named(plural+"."+providerVersion.Group))
	}
}

func providerObject(kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(providerVersion.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func providerList(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(providerVersion.WithKind(kind + "List"))
	return list
}

var clusterManifest = template.Must(template.New("cluster").Parse(`
apiVersion: hosts.e2e.windlass.dev/v1
kind: HostControlPlane
metadata: {name: {{.Name}}, namespace: {{.Name}}}
spec: {version: {{.From}}}
status: {version: {{.From}}, externalManagedControlPlane: true, initialization: {controlPlaneInitialized: true}}
---
apiVersion: hosts.e2e.windlass.dev/v1
kind: HostMachineTemplate
metadata: {name: worker, namespace: {{.Name}}}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: {{.Name}}, namespace: {{.Name}}}
spec:
  controlPlaneEndpoint: {host: 127.0.0.1, port: {{.Port}}}
  controlPlaneRef: {apiGroup: hosts.e2e.windlass.dev, kind: HostControlPlane, name: {{.Name}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: worker, namespace: {{.Name}}}
spec:
  clusterName: {{.Name}}
  replicas: 1
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}
  selector: {matchLabels: {pool: worker}}
  template:
    metadata: {labels: {pool: worker}}
    spec:
      clusterName: {{.Name}}
      version: {{.From}}
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: {{.Config}}}}
      infrastructureRef: {apiGroup: hosts.e2e.windlass.dev, kind: HostMachineTemplate, name: worker}
`))

// configManifest is a KubeadmConfigTemplate. What differs between two of them, a running host can be given.
var configManifest = template.Must(template.New("config").Parse(`
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: {{.Name}}, namespace: {{.Namespace}}}
spec:
  template:
    spec:
      files:
      - {path: {{.Path}}, owner: "root:root", permissions: "0600", content: {{.Content}}}
      joinConfiguration:
        nodeRegistration:
          ignorePreflightErrors: [SystemVerification]
          kubeletExtraArgs: [{name: max-pods, value: "{{.MaxPods}}"}]
`))

// createManifest creates the objects of a manifest.
func (p *plane) createManifest(ctx context.Context, t *testing.T, manifest *template.Template, values any) {
	t.Helper()
	var text strings.Builder
	if err := manifest.Execute(&text, values); err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(text.String(), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		p.create(ctx, t, object)
	}
}

// createSecrets creates the Secrets of a cluster: its kubeconfig and its CA, and what leads to its hosts.
func (p *plane) createSecrets(ctx context.Context, t *testing.T, cluster string, m *machine, kubeconfig []byte) {
	t.Helper()
	secret := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}, Data: data,
		}
	}
	managed := secret(cluster+"-kubeconfig", map[string][]byte{"value": kubeconfig})
	managed.Type = clusterv1.ClusterSecretType
	authority := secret(cluster+"-ca", map[string][]byte{"tls.crt": p.ca.pem, "tls.key": p.ca.keyPEM})
	authority.Type = clusterv1.ClusterSecretType
	p.create(ctx, t, managed, authority,
		secret(loginSecret, map[string][]byte{"ssh-privatekey": m.Key(hosts.Ops), "known_hosts": m.KnownHosts()}))
}

// loginSecret is the name of the Secret that leads to hosts.
const loginSecret = "hosts"

// createRules says that, and by whom, machines of the cluster are updated in place.
func (p *plane) createRules(ctx context.Context, t *testing.T, cluster string) {
	t.Helper()
	const digests = "digests"
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	publicKey := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))
	manifest := "# windlass-manifest v1 serial=1 expires=2099-01-01T00:00:00Z\n" + p.to.digests()
	p.create(ctx, t,
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: digests},
			Data: map[string]string{
				"SHA256SUMS": manifest, "SHA256SUMS.sig": base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(manifest))),
			},
		},
		&v1alpha1.Updater{
			ObjectMeta: metav1.ObjectMeta{Name: "kubeadm"},
			Spec: v1alpha1.UpdaterSpec{
				InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.KubeadmUpdater, Host: &v1alpha1.HostConfig{
					SSH:                 &v1alpha1.HostSSH{User: hosts.Ops, SecretName: loginSecret},
					AllowedPathPrefixes: []string{configFile},
					Binaries:            v1alpha1.HostBinaries{HostFolder: mirror, Digests: v1alpha1.HostDigests{ConfigMapName: digests, PublicKey: publicKey}},
				}},
				Transitions:       v1alpha1.Transitions{MaxMinors: 1, NeedsDrain: true},
				NamespaceSelector: rig.Labelled(corev1.LabelMetadataName, cluster),
			},
		},
		&v1alpha1.UpdatePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "in-place"},
			Spec: v1alpha1.UpdatePolicySpec{
				Targets:  []v1alpha1.UpdateTarget{{ClusterName: cluster}},
				Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, Drain: true, MaxAttempts: 1,
			},
		},
	)
}
