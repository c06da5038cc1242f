package remote

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// ServiceResolver gives the base URL of a Service. It is safe for concurrent use. ResolveService is the one for pods; a
// process outside of the cluster needs another.
type ServiceResolver func(v1alpha1.ServiceReference) (string, error)

// defaultServicePort is the port of a reference that names none.
const defaultServicePort = 443

// ResolveService gives the URL of a Service by its name in the cluster's DNS, as Cluster API does:
// https://name.namespace.svc:port/path.
func ResolveService(ref v1alpha1.ServiceReference) (string, error) {
	for _, part := range []struct{ field, value string }{{"name", ref.Name}, {"namespace", ref.Namespace}} {
		if problems := validation.IsDNS1123Label(part.value); len(problems) > 0 {
			return "", fmt.Errorf("the service's %s %q is no name of a %s: %s", part.field, part.value, part.field, strings.Join(problems, "; "))
		}
	}
	if ref.Port == 0 {
		ref.Port = defaultServicePort
	}
	if ref.Port < 1 || ref.Port > 65535 {
		return "", fmt.Errorf("the service's port %d is not between 1 and 65535", ref.Port)
	}
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(ref.Name+"."+ref.Namespace+".svc", strconv.Itoa(int(ref.Port)))}
	if ref.Path != "" {
		u.Path = path.Join("/", ref.Path)
	}
	return u.String(), nil
}
