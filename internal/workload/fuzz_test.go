package workload

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// fuzzToken stands in kubeconfigs where a fuzzer keeps "TOKEN".
const fuzzToken = "s3cr3t-0f-a-t3nant"

// A kubeconfig comes from a Secret that a tenant may write. One that is accepted leads to a server
// that is verified, and makes this process neither run nor read anything; one that is refused is
// not quoted.
func FuzzKubeconfig(f *testing.F) {
	const valid = `apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: TOKEN}}]
`
	f.Add([]byte(valid))
	for _, change := range [][2]string{
		{"token: TOKEN", "exec: {apiVersion: client.authentication.k8s.io/v1, command: TOKEN, interactiveMode: Never}"},
		{"token: TOKEN", "auth-provider: {name: TOKEN}"},
		{"token: TOKEN", "tokenFile: /TOKEN"},
		{"token: TOKEN", "client-certificate: /TOKEN, client-key: /TOKEN"},
		{"token: TOKEN", "client-certificate-data: VE9LRU4="},
		{"token: TOKEN", "as: TOKEN"},
		{`"}}]`, `", insecure-skip-tls-verify: true}}]`},
		{`"}}]`, `", proxy-url: "http://TOKEN"}}]`},
		{`"}}]`, `", certificate-authority: /TOKEN}}]`},
		{`"}}]`, `", tls-server-name: TOKEN}}]`},
		{"https:", "http:"},
		{"https://127", "HTTPS://127"},
		{"x, context", "y, context"},
	} {
		f.Add([]byte(strings.Replace(valid, change[0], change[1], 1)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := parseKubeconfig(bytes.ReplaceAll(data, []byte("TOKEN"), []byte(fuzzToken)))
		if err != nil {
			if strings.Contains(err.Error(), fuzzToken) || len(err.Error()) > maxShownBytes {
				t.Errorf("the error quotes the kubeconfig: %v", err)
			}
			return
		}
		files := config.BearerTokenFile + config.CAFile + config.CertFile + config.KeyFile
		if !strings.HasPrefix(config.Host, "https://") || config.Insecure || config.ExecProvider != nil || config.AuthProvider != nil || config.Proxy != nil || files != "" {
			t.Errorf("accepted: host %q, insecure %v, exec %v, auth provider %v, files %q", config.Host, config.Insecure, config.ExecProvider, config.AuthProvider, files)
		}
		// Its certificates may be useless, which is an error.
		_, _ = newConnection(config, "default")
	})
}

// An answer to /metrics comes from a server that a tenant may run. What is kept of it is bounded.
func FuzzMetrics(f *testing.F) {
	const start = "process_start_time_seconds 1.0e+09\n"
	for _, seed := range []string{
		"", start, anyMetric + "x 1\n" + start,
		deprecatedMetric + `{group="a",removed_release="1.33",resource="r",subresource="",version="v1"} 1` + "\n" + start,
		deprecatedMetric + `{group="` + strings.Repeat("g", 1000) + `",removed_release="x"} NaN` + "\n" + start,
		deprecatedMetric + `{removed_release="1.33` + "\n" + start, start + start,
	} {
		f.Add(seed)
	}
	at := time.Unix(2_000_000_000, 0)
	f.Fuzz(func(t *testing.T, body string) {
		lines, err := selectLines(strings.NewReader(body))
		if err != nil {
			return
		}
		if len(lines) > maxDeprecatedBytes+maxMetricLine {
			t.Fatalf("%d bytes are kept", len(lines))
		}
		apis, err := parseDeprecated(samples{lines: lines, at: at})
		if err != nil && len(err.Error()) > 2*maxShownBytes {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		for _, api := range apis {
			for _, word := range []string{api.Group, api.Version, api.Resource, api.Subresource} {
				if len(word) > maxNameBytes || strings.ContainsAny(word, "\n\r\x00") {
					t.Errorf("a name is %q", word)
				}
			}
		}
	})
}
