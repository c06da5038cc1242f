package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/config/crd"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/test/loopback"
)

// Plane is an API server with the CRDs of Cluster API and of Windlass. No controller runs beside it, so that nothing but the test and
// what it starts writes.
type Plane struct {
	// Client is for the test: it has full rights and reads from the API server.
	Client client.WithWatch
	// Kubeconfig is a file that leads to the API server with full rights.
	Kubeconfig string
	// Config is the same for clients of other kinds.
	Config *rest.Config
	// Executable is the windlass binary.
	Executable string
	// CoreManager is the binary of Cluster API's core manager.
	CoreManager string
	// APIServers has signed the certificate that the API server presents to webhooks.
	APIServers *loopback.Authority

	inner *devplane.Plane
}

// Scheme has all kinds that tests handle.
var Scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, runtimev1.AddToScheme, v1alpha1.AddToScheme, addonsv1.AddToScheme, ipamv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}()

// shared is what all tests of a binary use.
type shared struct {
	plane *Plane
	stop  func() error
}

var (
	begin  sync.Once
	one    shared
	failed error
	// isolation is how the plane is separated from this process. It is set before the first test.
	isolation = devplane.IsolationRequired
)

// MainOnLoopback is Main for tests whose API server calls what they serve, such as webhooks: the plane has
// no network of its own. RunInside is of no use there, because its programs may listen on all addresses.
func MainOnLoopback(m *testing.M) {
	isolation = devplane.IsolationNone
	Main(m)
}

// Main runs the tests of a package and ends their plane.
func Main(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if one.stop != nil {
		if err := one.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Start returns the plane of this test binary, and starts it for the first test.
func Start(t *testing.T) *Plane {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests beside a real API server")
	}
	begin.Do(func() { one, failed = startFor(t) })
	if failed != nil {
		t.Fatal(failed)
	}
	return one.plane
}

// StartSecond starts a plane beside that of Start. It ends with the test.
func StartSecond(t *testing.T) *Plane {
	t.Helper()
	second, err := startFor(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.stop(); err != nil {
			t.Error(err)
		}
	})
	return second.plane
}

func startFor(t *testing.T) (shared, error) {
	t.Helper()
	authority := loopback.NewAuthority(t, "api-servers")
	return start(context.WithoutCancel(t.Context()), authority, authority.Issue(t, "api-server", time.Now().Add(time.Hour)))
}

func start(ctx context.Context, authority *loopback.Authority, identity loopback.Identity) (shared, error) {
	source, err := devplane.FindSource(".")
	if err != nil {
		return shared{}, err
	}
	dir, err := os.MkdirTemp("", "windlass-wire-")
	if err != nil {
		return shared{}, err
	}
	paths, err := programs.Build()
	if err != nil {
		return shared{}, err
	}
	if err := devplane.Build(ctx, devplane.BuildOptions{SourceDir: source}); err != nil {
		return shared{}, err
	}
	admission, err := writeAdmission(dir, identity)
	if err != nil {
		return shared{}, err
	}
	started, err := devplane.Start(ctx, devplane.Config{
		SupervisorPath: paths.Lab, AssetsDir: devplane.DefaultOutDir(source), StateDir: filepath.Join(dir, "state"),
		Without: devplane.StockManagers(), AdmissionConfig: admission, Isolation: isolation,
	})
	if err != nil {
		return shared{}, err
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(started.Stop(ctx), os.RemoveAll(dir))
	}
	config := started.RESTConfig()
	config.QPS, config.WarningHandlerWithContext = -1, rest.NoWarnings{}
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme})
	if err != nil {
		return shared{}, errors.Join(err, stop())
	}
	if err := installCRDs(ctx, c); err != nil {
		return shared{}, errors.Join(err, stop())
	}
	return shared{stop: stop, plane: &Plane{
		Client: c, Kubeconfig: started.KubeconfigPath(), Config: config, Executable: paths.Windlass,
		CoreManager: filepath.Join(devplane.DefaultOutDir(source), "bin", devplane.CoreManager),
		APIServers:  authority, inner: started,
	}}, nil
}

// writeAdmission has the API server present a certificate to every webhook, and returns the file for
// its flag --admission-control-config-file.
func writeAdmission(dir string, identity loopback.Identity) (string, error) {
	path := func(name string) string { return filepath.Join(dir, "admission-"+name) }
	for name, content := range map[string]string{
		"tls.crt": string(identity.Certificate), "tls.key": string(identity.Key),
		"kubeconfig": fmt.Sprintf(`
apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %q, client-key: %q}
`, path("tls.crt"), path("tls.key")),
		"config.yaml": fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %q
`, path("kubeconfig")),
	} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("writing the API server's admission configuration: %w", err)
		}
	}
	return path("config.yaml"), nil
}

// installCRDs creates Windlass' CRDs and waits until they are served.
func installCRDs(ctx context.Context, c client.WithWatch) error {
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := crd.Files.ReadFile(file)
		if err != nil {
			return err
		}
		object := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, object); err != nil {
			return fmt.Errorf("decoding %s: %w", file, err)
		}
		if err := c.Create(ctx, object); err != nil {
			return err
		}
		if err := Await(ctx, c, &apiextensionsv1.CustomResourceDefinitionList{}, func(seen *apiextensionsv1.CustomResourceDefinition) bool {
			if seen.Name != object.Name {
				return false
			}
			for _, condition := range seen.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true
				}
			}
			return false
		}); err != nil {
			return fmt.Errorf("waiting for %s: %w", object.Name, err)
		}
	}
	return nil
}

// Await returns when an object of a list's kind is accepted. The context bounds the wait.
func Await[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, accept func(T) bool, o ...client.ListOption) error {
	for {
		w, err := c.Watch(ctx, list, o...)
		if err != nil {
			return err
		}
		for event := range w.ResultChan() {
			if object, ok := event.Object.(T); ok && accept(object) {
				w.Stop()
				return nil
			}
		}
		w.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Namespace makes a namespace that bears the test's name, so that tests do not meet.
func (p *Plane) Namespace(t *testing.T) string {
	t.Helper()
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, t.Name()), "-")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 40)] + "-"}}
	p.Create(t, namespace)
	return namespace.Name
}

// Create creates objects, with their status where they have one.
func (p *Plane) Create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		withStatus, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("a copy of %T is none", object)
		}
		if err := p.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
		if !hasStatus(t, withStatus) {
			continue
		}
		withStatus.SetResourceVersion(object.GetResourceVersion())
		withStatus.SetName(object.GetName())
		withStatus.SetUID(object.GetUID())
		if err := p.Client.Status().Update(t.Context(), withStatus); err != nil {
			t.Fatalf("writing the status of %T %s: %v", object, object.GetName(), err)
		}
		object.SetResourceVersion(withStatus.GetResourceVersion())
	}
}

// hasStatus reports whether an object's status holds anything.
func hasStatus(t *testing.T, object client.Object) bool {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := fields["status"].(map[string]any)
	return len(status) > 0
}

// Get reads an object anew.
func (p *Plane) Get(t *testing.T, object client.Object) {
	t.Helper()
	if err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("reading %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}
