package access_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestRegistration runs the extension in a namespace that its ExtensionConfig does not name, as clusterctl installs it,
// with the rights of the manifests. The ExtensionConfig gets the namespace, also after the manifest was applied again.
// Another one keeps its own.
func TestRegistration(t *testing.T) {
	plane := wire.Start(t)
	restricted := plane.Restricted(t)
	namespace := plane.Namespace(t)
	registered := func(name string) *runtimev1.ExtensionConfig {
		config := &runtimev1.ExtensionConfig{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{runtimev1.InjectCAFromSecretAnnotation: "windlass-system/windlass-extension-tls"}},
			Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{
				Service: runtimev1.ServiceReference{Namespace: "windlass-system", Name: "windlass-extension", Port: new(int32(443))},
			}},
		}
		plane.CreateForTest(t, config)
		return config
	}
	own, other := registered("windlass"), registered("other")
	restricted.Run(t, "--leader-elect=false", "--pod", namespace+"/a", "--extension-config", "windlass")
	await := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := wire.Await(ctx, plane.Client, &runtimev1.ExtensionConfigList{}, func(c *runtimev1.ExtensionConfig) bool {
			return c.Name == own.Name && c.Spec.ClientConfig.Service.Namespace == namespace && c.Spec.ClientConfig.Service.Name == "windlass-extension" &&
				c.Annotations[runtimev1.InjectCAFromSecretAnnotation] == namespace+"/windlass-extension-tls"
		}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	await("at the start")
	plane.Get(t, own)
	own.Spec.ClientConfig.Service.Namespace = "windlass-system"
	own.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "windlass-system/windlass-extension-tls"
	if err := plane.Client.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	await("after the manifest was applied again")
	if version := other.ResourceVersion; version != "" {
		if plane.Get(t, other); other.ResourceVersion != version {
			t.Errorf("the other ExtensionConfig was written: %+v", other.Spec)
		}
	}
}
