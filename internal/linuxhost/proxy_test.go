package linuxhost

import (
	"strings"
	"testing"
)

// proxyPod is a manifest with variables as kubeadm writes them. Its values are data.
const proxyPod = `spec:
  containers:
  - env:
    - name: HTTPS_PROXY
      value: http://u:it's$(touch hacked)@proxy.example:3128
    - name: NO_PROXY
      value: '*.svc, "10.0.0.0/8", 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6,
        10.0.0.7, ` + "`touch hacked`" + `'
    - name: no_proxy
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - name: TOKEN
      value: secret
    image: kube-scheduler:v1.35.4
status: {}
`

// TestProxies: kubeadm gets the proxies that it wrote to the manifests, and no other variable.
func TestProxies(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, scheduler, proxyPod)
	s.write(t, "/kubeadm.does", `printf '%s\n' "$HTTPS_PROXY" "$NO_PROXY" "$no_proxy" "$TOKEN" >seen
`+kubeadmSucceeds)
	for _, name := range []string{"HTTPS_PROXY", "NO_PROXY", "no_proxy", "TOKEN"} {
		s.env = append(s.env, name+"=")
	}
	s.mustReach(t, s.goal(t, "v1.36.3"), "first")
	const want = `http://u:it's$(touch hacked)@proxy.example:3128
*.svc, "10.0.0.0/8", 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7, ` +
		"`touch hacked`\n\n\n"
	if got := s.read("/seen"); got != want {
		t.Errorf("kubeadm got %q, want %q", got, want)
	}
}

// TestProxiesRefused: a host with a proxy that cannot be given to kubeadm is refused, before
// anything is done.
func TestProxiesRefused(t *testing.T) {
	t.Parallel()
	torn, _, _ := strings.Cut(proxyPod, "7, ")
	for name, manifest := range map[string]string{
		"no YAML":         strings.Replace(proxyPod, "spec:", "spec", 1),
		"a bad name":      strings.Replace(proxyPod, "HTTPS_PROXY", "'a[$(touch hacked)]_PROXY'", 1),
		"no text":         strings.Replace(proxyPod, "http://u:it's", "[1] #", 1),
		"torn by another": torn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, scheduler, manifest)
			p := s.attempt(t, s.goal(t, "v1.36.3"), "first")
			if p.Failure == nil || p.Failure.Reason != FileRefused || p.Step != KubeadmUpgrade {
				t.Errorf("%+v", p)
			}
			if s.job != (Job{}) || s.read("/hacked") != "" {
				t.Errorf("the last job is %+v", s.job)
			}
		})
	}
}
