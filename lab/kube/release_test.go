package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseImages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, lines string
		want        []Image
		fails       bool
	}{
		{name: "none"},
		{
			name: "references", lines: "r.example/kube-proxy:v1.35.4\nr.example:5000/a/etcd:3.6.6-0\n",
			want: []Image{{"r.example/kube-proxy", "v1.35.4"}, {"r.example:5000/a/etcd", "3.6.6-0"}},
		},
		{name: "no tag", lines: "r.example/etcd\n", fails: true},
		{name: "a port is no tag", lines: "r.example:5000\n", fails: true},
		{name: "a digest", lines: "r.example/etcd@sha256:0123\n", fails: true},
		{name: "a warning", lines: "W1126 remote version: using v1.35\n", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseImages(c.lines)
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.fails {
				t.Errorf("parseImages: %v; fails: %t (-want +got):\n%s", err, c.fails, diff)
			}
		})
	}
}

func TestImageVersion(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{"3.6.6-0": "v3.6.6", "v1.13.1": "v1.13.1", "latest": ""} {
		got, err := Image{Repository: "r.example/etcd", Tag: tag}.version()
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("the version of tag %s is %s, %v; want %q", tag, got, err, want)
		}
	}
}
