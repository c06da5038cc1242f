package guard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// review is what an API server would send about a Machine.
func review(t *testing.T, operation admissionv1.Operation, m *clusterv1.Machine) admissionv1.AdmissionReview {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	request := &admissionv1.AdmissionRequest{
		UID: types.UID(m.Name), Operation: operation, Namespace: m.Namespace, Name: m.Name,
		Kind:     metav1.GroupVersionKind{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Kind: "Machine"},
		Resource: metav1.GroupVersionResource{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Resource: "machines"},
	}
	if operation == admissionv1.Create {
		request.Object = runtime.RawExtension{Raw: raw}
	} else {
		request.OldObject = runtime.RawExtension{Raw: raw}
	}
	return admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: request}
}

// ask sends a review to the guard, and returns whether it is allowed. The guard cannot tell whether an API server sent it.
func ask(t *testing.T, e *wire.Process, operation admissionv1.Operation, m *clusterv1.Machine) bool {
	t.Helper()
	code, body, err := e.Post(t.Context(), e.Client(t, nil), e.Guard+"/guard-machine", review(t, operation, m))
	if err != nil || code != http.StatusOK {
		t.Fatalf("%v: %d: %s", err, code, body)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil || answer.Response == nil {
		t.Fatalf("%v: %s", err, body)
	}
	return answer.Response.Allowed
}

// TestForgedReviews sends reviews to the guard that no API server sent. They change no answer about a real request: a group is still scaled
// up and down, and no further than that.
func TestForgedReviews(t *testing.T) {
	p := wire.Start(t)
	namespace := p.Namespace(t)
	cluster(t, p, namespace, "prod")
	// up has one Machine and should have two; down has two, and should have one.
	createDeployment(t, p, namespace, "prod", "up", 2)
	createDeployment(t, p, namespace, "prod", "down", 1)
	p.Create(t, machine(namespace, "prod", "up", worker("up")), machine(namespace, "prod", "down-a", worker("down")), machine(namespace, "prod", "down-b", worker("down")))
	keep := policy(namespace, "keep", v1alpha1.UpdateTarget{})
	p.Create(t, keep)
	e := p.Run(t)
	for i := range 3 {
		m := machine(namespace, "prod", fmt.Sprint("forged-", i), worker("up"))
		m.UID = types.UID(m.Name)
		ask(t, e, admissionv1.Create, m)
	}
	get := func(name string) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		if err := p.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if !ask(t, e, admissionv1.Delete, get("prod-down-a")) {
		t.Error("a deletion that the guard would allow is refused")
	}
	began := time.Now()
	if !ask(t, e, admissionv1.Create, machine(namespace, "prod", "up-2", worker("up"))) {
		t.Error("a group cannot be scaled up after forged reviews")
	}
	if !ask(t, e, admissionv1.Delete, get("prod-down-b")) {
		t.Error("a group cannot be scaled down after a forged review")
	}
	t.Logf("the answers took %s", time.Since(began).Round(time.Millisecond))
	if ask(t, e, admissionv1.Delete, get("prod-up")) {
		t.Error("forged reviews let a Machine be deleted that is kept")
	}
}

// TestAPIServerCertificate has the guard ask for the certificate that the API server presents by its AdmissionConfiguration. With another
// CA the guard answers nothing, so the API server refuses what it cannot ask about.
func TestAPIServerCertificate(t *testing.T) {
	p := wire.Start(t)
	namespace := p.Namespace(t)
	cluster(t, p, namespace, "prod", "db", "up")
	keep := policy(namespace, "keep", v1alpha1.UpdateTarget{ClusterName: "prod", MachineDeployments: []v1alpha1.MachineDeploymentName{"prod-db"}})
	p.Create(t, keep)
	dir := t.TempDir()
	file := filepath.Join(dir, "guard-ca.crt")
	write := func(ca *loopback.Authority) {
		if err := os.WriteFile(file, ca.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(p.APIServers)
	e := p.Run(t, "--guard-client-ca-name", filepath.Join("..", filepath.Base(dir), filepath.Base(file)))
	register(t, p, e)
	awaitGuarding(t, p, keep, "True")
	if possible, message := deletion(t, p, namespace, "prod-db"); possible || !strings.Contains(message, "its UpdatePolicy keep keeps machines") {
		t.Errorf("a kept Machine: deletion possible %t, %s", possible, message)
	}
	write(loopback.NewAuthority(t, "another"))
	if possible, message := deletion(t, p, namespace, "prod-db"); possible || !strings.Contains(message, "failed calling webhook") {
		t.Errorf("with another CA: deletion possible %t, %s", possible, message)
	}
	if possible, message := deletion(t, p, namespace, "prod-up"); !possible {
		t.Errorf("a Machine that no policy keeps: %s", message)
	}
}

// TestGuardClientCertificate starts the guard with a CA for its callers: it answers those alone, and a new CA counts at once.
func TestGuardClientCertificate(t *testing.T) {
	p := wire.Start(t)
	namespace := p.Namespace(t)
	cluster(t, p, namespace, "prod", "db")
	dir := t.TempDir()
	file := filepath.Join(dir, "guard-ca.crt")
	first, second := loopback.NewAuthority(t, "first"), loopback.NewAuthority(t, "second")
	write := func(ca *loopback.Authority) {
		if err := os.WriteFile(file, ca.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	// The folder of the serving certificate is beside this one.
	e := p.Run(t, "--guard-client-ca-name", filepath.Join("..", filepath.Base(dir), filepath.Base(file)))
	asAPIServer := func(identity *loopback.Identity) error {
		code, body, err := e.Post(t.Context(), e.Client(t, identity), e.Guard+"/guard-machine",
			review(t, admissionv1.Delete, machine(namespace, "prod", "db", worker("prod-db"))))
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	}
	expires := time.Now().Add(time.Hour)
	one, two := first.Issue(t, "kube-apiserver", expires), second.Issue(t, "kube-apiserver", expires)
	for _, step := range []struct {
		name     string
		identity *loopback.Identity
		served   bool
	}{{"no certificate", nil, false}, {"a certificate of another CA", &two, false}, {"a certificate of the CA", &one, true}} {
		if err := asAPIServer(step.identity); (err == nil) != step.served {
			t.Errorf("%s: %v, want served %t", step.name, err, step.served)
		}
	}
	write(second)
	if err := asAPIServer(&two); err != nil {
		t.Errorf("with a new CA its certificate is refused: %v", err)
	}
	if err := asAPIServer(&one); err == nil {
		t.Error("with a new CA a certificate of the old one is accepted")
	}
}
