package guardwebhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
)

// review sends an update to a webhook server as the API server does, or a creation if before is nil.
func review(t *testing.T, handler http.Handler, path string, kind string, before, after client.Object) *admissionv1.AdmissionResponse {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Update, Name: after.GetName(), Namespace: after.GetNamespace(),
		Kind: metav1.GroupVersionKind{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Kind: kind},
	}
	objects := map[*runtime.RawExtension]client.Object{&request.Object: after}
	if before == nil {
		request.Operation = admissionv1.Create
	} else {
		objects[&request.OldObject] = before
	}
	for raw, object := range objects {
		object.GetObjectKind().SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind))
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		raw.Raw = encoded
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	posted := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	posted.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, posted)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || answer.Response == nil {
		t.Fatalf("%s answers %d: %s", path, recorder.Code, recorder.Body)
	}
	return answer.Response
}

// TestSetup holds that the webhooks are served at Cluster API's paths, validation by ours and the rest by its own.
func TestSetup(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://localhost:1"}, ctrl.Options{
		Scheme:  topologyScheme,
		Metrics: server.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (apimeta.RESTMapper, error) {
			return apimeta.NewDefaultRESTMapper(nil), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	middle := cell{target: "v1.33.0", controlPlane: "v1.31.2", deployment: "v1.31.2", pool: "v1.30.1", versions: list}
	read := newReader(append(clusterAndObjects("c", middle), class("class", middle))...)
	if err := (&guardwebhook.Cluster{Client: read}).SetupWithManager(mgr, read); err != nil {
		t.Fatal(err)
	}
	if err := (&guardwebhook.ClusterClass{Client: read}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	served := mgr.GetWebhookServer().WebhookMux()

	before, after := cluster("c", middle), cluster("c", middle)
	after.Spec.Topology.Version = "v1.32.3"
	if answer := review(t, served, "/validate-cluster-x-k8s-io-v1beta2-cluster", "Cluster", before, after); !answer.Allowed || len(answer.Warnings) != 1 {
		t.Errorf("a new target in mid-chain: %v", answer)
	}
	after.Spec.Topology.Version = "1.32.3"
	if answer := review(t, served, "/mutate-cluster-x-k8s-io-v1beta2-cluster", "Cluster", before, after); !answer.Allowed || !bytes.Contains(answer.Patch, []byte(`"v1.32.3"`)) {
		t.Errorf("defaulting: %v", answer)
	}
	older, newer := class("class", middle), class("class", middle)
	newer.Spec.KubernetesVersions = list[3:]
	if answer := review(t, served, "/validate-cluster-x-k8s-io-v1beta2-clusterclass", "ClusterClass", older, newer); answer.Allowed {
		t.Error("a list without a way was allowed")
	}
	newer.Spec.KubernetesVersions = list[1:]
	if answer := review(t, served, "/validate-cluster-x-k8s-io-v1beta2-clusterclass", "ClusterClass", older, newer); !answer.Allowed {
		t.Errorf("a shorter list: %v", answer)
	}
	checkNaming(t, mgr, served)
	for _, kind := range []string{"Cluster", "ClusterClass", "MachineDeployment", "MachineSet"} {
		if _, ok := mgr.GetConverterRegistry().GetConverter(clusterv1.GroupVersion.WithKind(kind).GroupKind()); !ok {
			t.Errorf("%s is not converted", kind)
		}
	}
}

// checkNaming holds that no template of names that loops is executed, and that objects which have
// one can be changed.
func checkNaming(t *testing.T, mgr ctrl.Manager, served http.Handler) {
	t.Helper()
	for _, err := range []error{
		guardwebhook.MachineDeployments().SetupWebhookWithManager(mgr),
		guardwebhook.MachineSets().SetupWebhookWithManager(mgr),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const good, loops = "{{ .random }}", "{{ .random }}{{ range 10000000000 }}{{ end }}"
	replicas := int32(1)
	labels := map[string]string{"a": "b"}
	machine := clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("s")},
		},
	}
	deployment := func(naming, cluster string) client.Object {
		md := &clusterv1.MachineDeployment{}
		md.Name, md.Spec.ClusterName, md.Spec.Template = "md", cluster, machine
		md.Spec.Replicas, md.Spec.MachineNaming.Template = &replicas, naming
		md.Spec.Selector.MatchLabels = labels
		return md
	}
	set := func(naming, cluster string) client.Object {
		set := &clusterv1.MachineSet{}
		set.Name, set.Spec.ClusterName, set.Spec.Template = "set", cluster, machine
		set.Spec.Replicas, set.Spec.MachineNaming.Template = &replicas, naming
		set.Spec.Selector.MatchLabels = labels
		return set
	}
	for kind, object := range map[string]func(naming, cluster string) client.Object{
		"MachineDeployment": deployment, "MachineSet": set,
	} {
		path := "/validate-cluster-x-k8s-io-v1beta2-" + strings.ToLower(kind)
		for name, c := range map[string]struct{ before, after, cluster, refused string }{
			"good":                       {good, good, "c", ""},
			"a loop":                     {good, loops, "c", "range 10000000000"},
			"a loop that was there":      {loops, loops, "c", ""},
			"no loop any more":           {loops, good, "c", ""},
			"a loop, and another fault":  {good, loops, "other", "immutable"},
			"no loop, and another fault": {loops, loops, "other", "immutable"},
		} {
			answer := review(t, served, path, kind, object(c.before, "c"), object(c.after, c.cluster))
			if answer.Allowed != (c.refused == "") ||
				!answer.Allowed && !strings.Contains(answer.Result.Message, c.refused) {
				t.Errorf("%s, %s: %v", kind, name, answer)
			}
		}
		created := review(t, served, path, kind, nil, object(loops, "c"))
		if created.Allowed || !strings.Contains(created.Result.Message, "range 10000000000") {
			t.Errorf("%s, a new one with a loop: %v", kind, created)
		}
		mutate := "/mutate-cluster-x-k8s-io-v1beta2-" + strings.ToLower(kind)
		answer := review(t, served, mutate, kind, object(loops, "c"), object(loops, "c"))
		if !answer.Allowed || len(answer.Patch) == 0 {
			t.Errorf("%s: defaulting: %v", kind, answer)
		}
	}
}
