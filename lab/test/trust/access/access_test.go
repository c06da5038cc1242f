package access_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// impersonate returns a client that acts as the ServiceAccount.
func impersonate(t *testing.T, plane *wire.Plane) client.Client {
	t.Helper()
	as := rest.CopyConfig(plane.Config)
	as.Impersonate = wire.Impersonation
	c, err := client.New(as, client.Options{Scheme: wire.Scheme, Mapper: plane.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// TestConfigMaps writes as the extension, and as somebody else who may.
func TestConfigMaps(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	plane.Install(t, "default", "", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	extension := impersonate(t, plane)
	log := map[string]string{"windlass.dev/update-log": "true"}
	awaitPolicy(t, "windlass-extension-configmaps", func() error {
		return extension.Create(t.Context(), configMap(namespace, "probe", nil), client.DryRunAll)
	})

	create := func(name string, labels map[string]string) error {
		return extension.Create(t.Context(), configMap(namespace, name, labels))
	}
	patch := func(name string) error {
		return extension.Patch(t.Context(), configMap(namespace, name, nil), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)))
	}
	remove := func(name string) error { return extension.Delete(t.Context(), configMap(namespace, name, nil)) }
	check := func(what string, err error, allowed bool) {
		t.Helper()
		switch {
		case allowed && err != nil:
			t.Errorf("%s: %v", what, err)
		case !allowed && err == nil:
			t.Errorf("%s is allowed", what)
		case !allowed && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the extension writes no other ConfigMaps")):
			t.Errorf("%s is refused by something else: %v", what, err)
		}
	}
	// Objects of others, two of which have names like those of the extension.
	for _, object := range []*corev1.ConfigMap{
		configMap(namespace, "settings", nil), configMap(namespace, "their-update-log", nil), configMap(namespace, "labelled", log),
	} {
		plane.Create(t, object)
	}
	const lock, entries = "c-cp-inplace-upgrade-lock", "m-update-log"
	check("creating the lock", create(lock, nil), true)
	check("changing the lock", patch(lock), false)
	check("removing the lock", remove(lock), true)
	check("creating a log", create(entries, log), true)
	check("adding to a log", patch(entries), true)
	check("removing a log", remove(entries), false)
	check("creating a log without its label", create("n-update-log", nil), false)
	check("creating another ConfigMap", create("other", nil), false)
	check("creating another ConfigMap with the label", create("other", log), false)
	check("creating a ConfigMap whose name the server chooses", extension.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "other-"},
	}), false)
	for _, name := range []string{"settings", "their-update-log", "labelled"} {
		check("changing "+name, patch(name), false)
		check("removing "+name, remove(name), false)
	}
	// Others are not concerned.
	if err := plane.Client.Delete(t.Context(), configMap(namespace, "settings", nil)); err != nil {
		t.Error(err)
	}
}

// TestPods changes Pods as the extension, which RBAC lets patch all Pods of its namespace.
func TestPods(t *testing.T) {
	plane := wire.Start(t)
	namespace := plane.Namespace(t)
	plane.Install(t, "default", "", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "patch-pods"}
	plane.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/ephemeralcontainers"}, Verbs: []string{"get", "patch"}},
	}})
	plane.Create(t, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: wire.Account}},
	})
	extension := impersonate(t, plane)
	plain := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plain"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "a"}}},
	}
	labelled := plain.DeepCopy()
	labelled.Name, labelled.Labels = "labelled", map[string]string{"app": "a", v1alpha1.ActiveLabel: "true"}
	plane.Create(t, plain)
	plane.Create(t, labelled)
	mergePatch := func(pod *corev1.Pod, patch string) error {
		return extension.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	checkMay(t, plane, namespace, "pods", "patch", true)
	const refusal, image = "the extension changes nothing of a Pod but the label", `{"spec":{"containers":[{"name":"manager","image":"b"}]}}`
	awaitPolicy(t, refusal, func() error {
		return extension.Patch(t.Context(), plain.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(image)), client.DryRunAll)
	})
	for what, patch := range map[string]string{
		"the image":          image,
		"a deadline":         `{"spec":{"activeDeadlineSeconds":1}}`,
		"another label":      `{"metadata":{"labels":{"windlass.dev/active":"true","app":"b"}}}`,
		"a new label":        `{"metadata":{"labels":{"b":"b"}}}`,
		"a label's removal":  `{"metadata":{"labels":{"app":null}}}`,
		"the labels removed": `{"metadata":{"labels":null}}`,
		"an annotation":      `{"metadata":{"annotations":{"a":"b"}}}`,
		"a finalizer":        `{"metadata":{"finalizers":["windlass.dev/a"]}}`,
		"an owner":           `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"a"}]}}`,
	} {
		if err := mergePatch(labelled, patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refusal) {
			t.Errorf("changing %s: %v", what, err)
		}
	}
	debug := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"ephemeralContainers":[{"name":"a","image":"a"}]}}`))
	err := extension.SubResource("ephemeralcontainers").Patch(t.Context(), labelled.DeepCopy(), debug)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refusal) {
		t.Errorf("adding an ephemeral container: %v", err)
	}
	for _, pod := range []*corev1.Pod{plain, labelled} {
		for _, value := range []string{`"true"`, "null"} {
			if err := mergePatch(pod, `{"metadata":{"labels":{"windlass.dev/active":`+value+`}}}`); err != nil {
				t.Errorf("setting the label of %s to %s: %v", pod.Name, value, err)
			}
		}
	}
	// Others are not concerned.
	if err := plane.Client.Patch(t.Context(), plain, client.RawPatch(types.MergePatchType, []byte(image))); err != nil {
		t.Error(err)
	}
}

// awaitPolicy waits until the API server refuses a request with a text: it reads policies
// asynchronously.
func awaitPolicy(t *testing.T, text string, request func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for {
		err := request()
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), text) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("the policy is not applied: %v", err)
		}
	}
}

// checkMay asks the API server what the ServiceAccount may do, and waits for its answer to become the wanted one: it reads roles asynchronously.
func checkMay(t *testing.T, plane *wire.Plane, namespace, resource, verb string, want bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: wire.Account, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Resource: resource, Verb: verb},
		}}
		if err := plane.Client.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed == want {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Errorf("in namespace %q the extension may %s %s: %t", namespace, verb, resource, review.Status.Allowed)
			return
		}
	}
}

// TestListedNamespaces installs what docs/reference/rights.md describes for an operator who lists the namespaces of clusters.
func TestListedNamespaces(t *testing.T) {
	plane := wire.Start(t)
	listed, other := plane.Namespace(t), plane.Namespace(t)
	kinds := []string{"ClusterRole", "ClusterRoleBinding"}
	verbs := []struct{ resource, verb string }{
		{"secrets", "get"}, {"configmaps", "get"}, {"configmaps", "create"}, {"configmaps", "patch"}, {"configmaps", "delete"},
	}
	check := func(namespace string, want bool) {
		t.Helper()
		for _, v := range verbs {
			checkMay(t, plane, namespace, v.resource, v.verb, want)
		}
	}
	plane.Install(t, "default", "", kinds...)
	check(other, true)
	// What the component removes.
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("rbac.authorization.k8s.io/v1")
	binding.SetKind("ClusterRoleBinding")
	binding.SetName("windlass-extension-namespaced")
	if err := plane.Client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	check(other, false)
	plane.Install(t, filepath.Join("components", "namespaces", "binding"), listed, "RoleBinding")
	check(listed, true)
	check(other, false)
	for _, verb := range []string{"list", "watch", "update", "delete"} {
		checkMay(t, plane, listed, "secrets", verb, false)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "c-kubeconfig"}}
	plane.Create(t, secret)
	if err := impersonate(t, plane).Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("reading a Secret of a namespace that is not listed: %v", err)
	}
}
