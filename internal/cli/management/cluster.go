package management

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

const (
	// pageSize bounds one answer of the API server, so that large clusters are read in pieces.
	pageSize = 500
	// completionTimeout bounds how long a person waits for the names of Clusters after pressing Tab.
	completionTimeout = 3 * time.Second
)

// ReadError says what could not be read from the management cluster.
type ReadError struct {
	// Item is what was read, such as Cluster my-namespace/my-cluster.
	Item string
	Err  error
}

func (e *ReadError) Error() string { return fmt.Sprintf("reading %s: %v", e.Item, e.Err) }

// Unwrap returns the error of the request.
func (e *ReadError) Unwrap() error { return e.Err }

// IsOutage reports whether a request failed because the server was not reached, or could not answer for now. The same
// request may succeed later.
func IsOutage(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || meta.IsNoMatchError(err) {
		return false
	}
	refused, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered {
		return true
	}
	code := refused.ErrStatus.Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// Cluster is what is needed of one: to read objects, and to find the API version of a control plane's kind.
type Cluster struct {
	client.Reader
	Mapper meta.RESTMapper
	Scheme *runtime.Scheme
	Config *rest.Config
	// Prefix begins the keys of the annotations that ask for upgrades in place; empty means the usual one.
	Prefix string
	// Cached says that Reader answers from memory, and knows no pages.
	Cached bool
}

// ErrNoCluster says that nothing names a management cluster.
var ErrNoCluster = errors.New("it names no cluster. Fix: choose one with --kubeconfig or KUBECONFIG")

// ConnectUnlessManifests is Connect for commands that read manifests instead.
func ConnectUnlessManifests(kube *Flags) (Cluster, string, error) {
	m, namespace, err := Connect(kube)
	if errors.Is(err, ErrNoCluster) {
		err = fmt.Errorf("%w, or give manifests with -f", err)
	}
	return m, namespace, err
}

// Connect returns the management cluster that the flags choose, and the namespace to look in.
func Connect(kube *Flags) (Cluster, string, error) {
	return connect(kube, 0)
}

// connect is Connect with a limit for each request; 0 means the flags' own.
func connect(
	kube *Flags, timeout time.Duration,
) (Cluster, string, error) {
	// What goes wrong in the background reaches standard error by way of client-go's log. Without a logger controller-runtime
	// prints the stack of whatever goroutine first has something to log.
	ctrl.SetLogger(klog.Background())
	loader := kube.loader()
	namespace, _, err := loader.Namespace()
	var config *rest.Config
	if err == nil {
		config, err = loader.ClientConfig()
	}
	if err == nil {
		err = checkKubeconfig(loader, config, kube.Context)
	}
	if err != nil {
		return Cluster{}, "", &ReadError{Item: "the kubeconfig", Err: kube.explain(err)}
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.Timeout = cmp.Or(timeout, config.Timeout)
	m, err := New(config)
	return m, namespace, err
}

// New returns the management cluster at the API server that config names.
func New(config *rest.Config) (Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, runtimev1.AddToScheme, v1alpha1.AddToScheme,
		corev1.AddToScheme, appsv1.AddToScheme, admissionregistrationv1.AddToScheme,
		coordinationv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return Cluster{}, fmt.Errorf("registering types: %w", err)
		}
	}
	m := Cluster{Scheme: scheme, Config: config}
	c, err := m.NewClient()
	if err != nil {
		return Cluster{}, err
	}
	m.Reader, m.Mapper = c, c.RESTMapper()
	return m, nil
}

// NewClient returns a client that also writes and watches.
func (m Cluster) NewClient() (client.WithWatch, error) {
	c, err := client.NewWithWatch(m.Config, client.Options{Scheme: m.Scheme, Mapper: m.Mapper})
	if err != nil {
		return nil, &ReadError{Item: "the management cluster", Err: err}
	}
	return c, nil
}

// checkKubeconfig refuses to ask localhost, which is where client-go goes when nothing names a
// cluster: no kubeconfig, no context or none with a cluster, and no service account of a Pod. chosen
// is the name of a context; empty for the current one.
func checkKubeconfig(loader clientcmd.ClientConfig, config *rest.Config, chosen string) error {
	raw, err := loader.RawConfig()
	if err != nil {
		return fmt.Errorf("loading it: %w", err)
	}
	name := cmp.Or(chosen, raw.CurrentContext)
	switch current := raw.Contexts[name]; {
	case name == "" && config.BearerTokenFile != "":
		return nil
	case len(raw.Clusters) == 0:
		return ErrNoCluster
	case name == "":
		return fmt.Errorf("it has no current context. Fix: choose one of %q with --context",
			slices.Sorted(maps.Keys(raw.Contexts)))
	case current == nil || current.Cluster == "":
		return fmt.Errorf("its context %q has no cluster. Fix: choose another of %q with --context",
			name, slices.Sorted(maps.Keys(raw.Contexts)))
	}
	return nil
}

// ControlPlane reads the control plane object of a Cluster.
func (m Cluster) ControlPlane(ctx context.Context, cluster *clusterv1.Cluster) (*unstructured.Unstructured, error) {
	return m.Referenced(ctx, cluster.Namespace, cluster.Spec.ControlPlaneRef)
}

// Referenced reads an object that a Cluster refers to. The reference has no API version; every version has the
// fields of Cluster API's contract, so the server's preferred one will do.
func (m Cluster) Referenced(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	mapping, err := m.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, &ReadError{Item: ref.Kind + " " + namespace + "/" + ref.Name, Err: err}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	if err := m.Object(ctx, ref.Kind, key, object); err != nil {
		return nil, err
	}
	return object, nil
}

// Object reads an object into a value. kind is what messages call it.
func (m Cluster) Object(ctx context.Context, kind string, key types.NamespacedName, into client.Object) error {
	err := m.Get(ctx, key, into)
	if meta.IsNoMatchError(err) {
		err = fmt.Errorf("the server does not serve it; is Cluster API v1.11 or newer installed there? %w", err)
	}
	if err != nil {
		return &ReadError{Item: kind + " " + key.String(), Err: err}
	}
	return nil
}

// Scope is where objects are looked for.
type Scope struct {
	// Where is what messages say of it.
	Where   string
	Options []client.ListOption
}

// InNamespace is all of a namespace.
func InNamespace(namespace string) Scope {
	return Scope{
		Where: " of namespace " + namespace, Options: []client.ListOption{client.InNamespace(namespace)},
	}
}

// InCluster is everything with the name label of a Cluster.
func InCluster(key types.NamespacedName) Scope {
	return Scope{
		Where: " of Cluster " + key.String(),
		Options: []client.ListOption{
			client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name},
		},
	}
}

// listOf is the pointer type of a list of objects.
type listOf[L any] interface {
	*L
	client.ObjectList
}

// List reads all pages of a list L, whose items are of the pointer type T. kinds is what messages
// call them.
func List[T client.Object, L any, P listOf[L]](
	ctx context.Context, m Cluster, kinds string, in Scope,
) ([]T, error) {
	return listPages[T](ctx, m, kinds, in, func() client.ObjectList { return P(new(L)) })
}

// listPages is List for lists that newPage prepares.
func listPages[T client.Object](
	ctx context.Context, m Cluster, kinds string, in Scope, newPage func() client.ObjectList,
) ([]T, error) {
	var all []T
	next := ""
	for {
		page := newPage()
		paging := []client.ListOption{client.Limit(pageSize), client.Continue(next)}
		if m.Cached {
			paging = nil
		}
		err := m.List(ctx, page, append(paging, in.Options...)...)
		if err == nil {
			err = meta.EachListItem(page, func(o runtime.Object) error {
				if typed, ok := o.(T); ok {
					all = append(all, typed)
				}
				return nil
			})
		}
		if err != nil {
			return nil, &ReadError{Item: kinds + in.Where, Err: err}
		}
		if next = page.GetContinue(); next == "" || m.Cached {
			return all, nil
		}
	}
}

// ListKnown is List by value, and finds none where the server does not know the kind.
func ListKnown[V any, L any, T interface {
	*V
	client.Object
}, P listOf[L]](ctx context.Context, m Cluster, kinds string, in Scope) ([]V, error) {
	found, err := List[T, L, P](ctx, m, kinds, in)
	values := make([]V, 0, len(found))
	for _, o := range found {
		values = append(values, *o)
	}
	return values, IgnoreMissing(err)
}

// Names returns the names of the objects in a list L, for completion: what cannot be read is no
// error there.
func Names[L any, P listOf[L]](
	ctx context.Context, kube *Flags, options ...client.ListOption,
) []string {
	// The discovery of kinds does not heed ctx.
	m, namespace, err := connect(kube, completionTimeout)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	options = append(options, client.InNamespace(namespace))
	objects, err := List[client.Object, L, P](ctx, m, "objects", Scope{Options: options})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

// IgnoreMissing returns nil for the error of an object that does not exist, or that is not served.
func IgnoreMissing(err error) error {
	cause := err
	if server, ok := errors.AsType[*ReadError](err); ok {
		cause = server.Err
	}
	if apierrors.IsNotFound(cause) || meta.IsNoMatchError(cause) {
		return nil
	}
	return err
}

// IsGone reports whether the object that was read does not exist.
func IsGone(err error) bool {
	failed, ok := errors.AsType[*ReadError](err)
	return ok && apierrors.IsNotFound(failed.Err)
}

// Contexts returns the names of the contexts in a kubeconfig, or in those that kubectl reads where path
// is empty. It is for completion: what cannot be read has none.
func Contexts(path string) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}
