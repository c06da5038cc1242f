package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// contractVersion is the version of Cluster API's contract, and of its types, that a plane serves.
const contractVersion = "v1beta2"

// contractLabel tells Cluster API which versions of a CRD fulfil the contract
// (https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview#api-version-labels).
const contractLabel = "cluster.x-k8s.io/" + contractVersion

// CRD reads a CustomResourceDefinition and reduces it to the contract version where it has that, without conversion: each further version
// served costs the API server memory and needs a webhook. The contract label is added. A CRD without the contract version keeps all
// versions.
func CRD(data []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := decodeOne(data, crd); err != nil {
		return nil, fmt.Errorf("decoding a CustomResourceDefinition: %w", err)
	}
	if crd.Kind != "CustomResourceDefinition" {
		return nil, fmt.Errorf("expected a CustomResourceDefinition, found kind %q", crd.Kind)
	}
	for i := range crd.Spec.Versions {
		if version := crd.Spec.Versions[i]; version.Name == contractVersion && version.Served && version.Storage {
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version}
			metav1.SetMetaDataLabel(&crd.ObjectMeta, contractLabel, contractVersion)
			crd.Spec.Conversion = nil
			break
		}
	}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return crd, nil
}

// Webhooks are the admission webhooks of one manager.
type Webhooks struct {
	Mutating   *admissionv1.MutatingWebhookConfiguration   `json:"mutating,omitempty"`
	Validating *admissionv1.ValidatingWebhookConfiguration `json:"validating,omitempty"`
}

// ReadWebhooks reads a manager's webhook manifest and names the configurations after the manager.
func ReadWebhooks(manager string, data []byte) (Webhooks, error) {
	var out Webhooks
	docs, err := split(data)
	if err != nil {
		return Webhooks{}, err
	}
	for i, doc := range docs {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(doc, &kind); err != nil {
			return Webhooks{}, fmt.Errorf("reading document %d: %w", i, err)
		}
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			out.Mutating = &admissionv1.MutatingWebhookConfiguration{}
			err = json.Unmarshal(doc, out.Mutating)
			out.Mutating.Name = manager
		case "ValidatingWebhookConfiguration":
			out.Validating = &admissionv1.ValidatingWebhookConfiguration{}
			err = json.Unmarshal(doc, out.Validating)
			out.Validating.Name = manager
		default:
			err = fmt.Errorf("expected a webhook configuration, found kind %q", kind.Kind)
		}
		if err != nil {
			return Webhooks{}, fmt.Errorf("reading document %d: %w", i, err)
		}
	}
	if out.Mutating == nil && out.Validating == nil {
		return Webhooks{}, errors.New("no webhook configuration found")
	}
	return out, nil
}

// At returns the webhooks as called at base, a URL without a path, with a certificate from ca (PEM). The receiver is not changed.
func (w Webhooks) At(base string, ca []byte) Webhooks {
	var out Webhooks
	if w.Mutating != nil {
		out.Mutating = w.Mutating.DeepCopy()
		for i := range out.Mutating.Webhooks {
			redirect(&out.Mutating.Webhooks[i].ClientConfig, base, ca)
		}
	}
	if w.Validating != nil {
		out.Validating = w.Validating.DeepCopy()
		for i := range out.Validating.Webhooks {
			redirect(&out.Validating.Webhooks[i].ClientConfig, base, ca)
		}
	}
	return out
}

func redirect(config *admissionv1.WebhookClientConfig, base string, ca []byte) {
	path := ""
	if config.Service != nil && config.Service.Path != nil {
		path = *config.Service.Path
	}
	url := base + path
	*config = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}
}

func decodeOne(data []byte, into any) error {
	docs, err := split(data)
	if err != nil {
		return err
	}
	if len(docs) != 1 {
		return fmt.Errorf("expected one document, found %d", len(docs))
	}
	return json.Unmarshal(docs[0], into)
}

// split returns the documents of a YAML stream as JSON; empty ones are left out.
func split(data []byte) ([][]byte, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var docs [][]byte
	for {
		var doc json.RawMessage
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading YAML document %d: %w", len(docs), err)
		}
		if text := strings.TrimSpace(string(doc)); text == "" || text == "null" {
			continue
		}
		docs = append(docs, doc)
	}
}

// FeatureGates reads the feature gates that a manager knows from its --help, where k8s.io/component-base lists each as
// "Name=true|false (STAGE - default=...)". The result is sorted as in the help text, which is by name.
func FeatureGates(help string) []string {
	var gates []string
	for field := range strings.FieldsSeq(help) {
		name, ok := strings.CutSuffix(field, "=true|false")
		if !ok || name == "AllAlpha" || name == "AllBeta" || name == "" {
			continue
		}
		gates = append(gates, name)
	}
	return gates
}
