package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const twoVersions = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  group: example.com
  conversion: {strategy: Webhook}
  names: {plural: things, kind: Thing}
  scope: Namespaced
  versions:
    - {name: v1beta1, served: true, storage: false}
    - {name: v1beta2, served: true, storage: true}
`

func TestCRD(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in           string
		wantVersions []string
		wantLabels   map[string]string
		conversion   bool
		wantErr      string
	}{
		"reduced to the contract version": {
			in: twoVersions, wantVersions: []string{"v1beta2"}, wantLabels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"},
		},
		"contract version is not the stored one": {
			in:           strings.NewReplacer("storage: false", "storage: true", "storage: true", "storage: false").Replace(twoVersions),
			wantVersions: []string{"v1beta1", "v1beta2"}, conversion: true,
		},
		"no contract version": {
			in: strings.ReplaceAll(twoVersions, "v1beta2", "v1"), wantVersions: []string{"v1beta1", "v1"}, conversion: true,
		},
		"another kind":    {in: "kind: ConfigMap", wantErr: `found kind "ConfigMap"`},
		"nothing":         {in: "---\n---\n", wantErr: "found 0"},
		"two documents":   {in: twoVersions + twoVersions, wantErr: "found 2"},
		"not YAML at all": {in: "\t{", wantErr: "reading YAML document 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd, err := CRD([]byte(tt.in))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error is %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.wantVersions, versionNames(crd)); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantLabels, crd.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got := crd.Spec.Conversion != nil; got != tt.conversion {
				t.Errorf("has a conversion: %v, want %v", got, tt.conversion)
			}
		})
	}
}

func versionNames(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, version := range crd.Spec.Versions {
		names = append(names, version.Name)
	}
	return names
}

const webhookManifest = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
  - name: default.example.com
    clientConfig: {service: {name: s, namespace: system, path: /mutate}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
  - name: validation.example.com
    clientConfig: {service: {name: s, namespace: system, path: /validate}}
`

func TestWebhooks(t *testing.T) {
	t.Parallel()
	read, err := ReadWebhooks("manager", []byte(webhookManifest))
	if err != nil {
		t.Fatal(err)
	}
	if read.Mutating.Name != "manager" || read.Validating.Name != "manager" {
		t.Errorf("names are %q and %q, want the manager's", read.Mutating.Name, read.Validating.Name)
	}
	at := read.At("https://127.0.0.1:9443", []byte("CA"))
	for want, config := range map[string]struct {
		url     *string
		service bool
		ca      string
	}{
		"https://127.0.0.1:9443/mutate": {
			at.Mutating.Webhooks[0].ClientConfig.URL, at.Mutating.Webhooks[0].ClientConfig.Service != nil, string(at.Mutating.Webhooks[0].ClientConfig.CABundle),
		},
		"https://127.0.0.1:9443/validate": {
			at.Validating.Webhooks[0].ClientConfig.URL, at.Validating.Webhooks[0].ClientConfig.Service != nil, string(at.Validating.Webhooks[0].ClientConfig.CABundle),
		},
	} {
		if config.url == nil || *config.url != want || config.service || config.ca != "CA" {
			t.Errorf("client config is %+v, want URL %s with the CA and no service", config, want)
		}
	}
	if read.Mutating.Webhooks[0].ClientConfig.Service == nil {
		t.Error("At has changed its receiver")
	}
}

func TestReadWebhooksRejects(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":             "no webhook configuration found",
		"kind: Secret": `found kind "Secret"`,
		"kind: [":      "reading YAML document 0",
		webhookManifest + "---\nkind: ValidatingWebhookConfiguration\nwebhooks: 3": "reading document 2",
	} {
		if _, err := ReadWebhooks("manager", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadWebhooks(%q) = %v, want an error with %q", in, err, want)
		}
	}
}

func TestFeatureGates(t *testing.T) {
	t.Parallel()
	help := `      --feature-gates mapStringBool   A set of key=value pairs that describe feature gates. Options are:
                                        AllAlpha=true|false (ALPHA - default=false)
                                        AllBeta=true|false (BETA - default=false)
                                        ClusterTopology=true|false (ALPHA - default=false)
                                        MachinePool=true|false (BETA - default=true)
      --health-addr string            The address`
	if diff := cmp.Diff([]string{"ClusterTopology", "MachinePool"}, FeatureGates(help)); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	if got := FeatureGates("unknown flag: --help"); got != nil {
		t.Errorf("gates of a text without any: %v", got)
	}
}
