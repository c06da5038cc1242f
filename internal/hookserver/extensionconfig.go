package hookserver

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// ExtensionConfig registers a Server that is reached at a URL with Cluster API. A ClusterClass then names the plan hook
// as GenerateUpgradePlanHandler + "." + name. settings are sent with every request; SettingGraph is the one that there is.
func ExtensionConfig(name, url string, caBundle []byte, settings map[string]string) *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: runtimev1.GroupVersion.String(), Kind: "ExtensionConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig: runtimev1.ClientConfig{URL: url, CABundle: slices.Clone(caBundle)},
			Settings:     maps.Clone(settings),
		},
	}
}
