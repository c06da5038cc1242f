package preflight_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/preflight"
)

func TestTraefik2Values(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"":                       "",
		"image: {name: traefik}": "",
		"image: {tag: v3.3.6}":   "",
		"image: {tag: 3}":        "",
		"image: {tag: latest}":   "",
		"image: {tag: 2.11.10}":  "image.tag 2.11.10",
		"image: {tag: v2.11.10}": "image.tag v2.11.10",
		"image: {tag: 2.11}":     "image.tag 2.11",
		"image: {tag: 2}":        "image.tag 2",
		"image: traefik":         "",
		"image: {tag: {a: b}}":   "",
		"ports: [web]":           "",
		"ports: {web: {redirections: {entryPoint: {}}}}":                   "",
		"ports: {b: {redirectTo: {}}, a: {redirectTo: {port: websecure}}}": "ports.a.redirectTo",
	} {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(values), &content); err != nil {
			t.Fatal(err)
		}
		if got := preflight.Traefik2Values(content); got != want {
			t.Errorf("%q: %q, want %q", values, got, want)
		}
	}
}
