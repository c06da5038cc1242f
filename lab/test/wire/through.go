package wire

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Through returns the plane behind a proxy. The proxy serves each request of processes of that plane
// with wrap(forward), where forward passes it on with full rights. It ends with the test.
func (p *Plane) Through(t *testing.T, wrap func(forward http.Handler) http.Handler) *Plane {
	t.Helper()
	transport, err := rest.TransportFor(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(p.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) },
	}
	listener := httptest.NewServer(wrap(forward))
	t.Cleanup(listener.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: listener.URL}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
	config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "c"
	through := *p
	through.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, through.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return &through
}
