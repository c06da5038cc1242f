package settings_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
)

// TestMergeRancher: files count as RKE2 and K3s merge them. What a later file replaces, no
// component gets.
func TestMergeRancher(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files, arguments []string
		agent            bool
		// want are the settings, as FILE KEY COMPONENT/NAME=VALUE.
		want string
	}{
		"nothing": {},
		"one file": {
			files: []string{"kubelet-arg: [max-pods=1, feature-gates=A=true]\ntoken: x\nkube-proxy-arg: v=2"},
			want:  "0 kube-proxy-arg kube-proxy/v, 0 kubelet-arg kubelet/max-pods, 0 kubelet-arg kubelet/A=true",
		},
		"a file replaces a key of the files before": {
			files: []string{"kubelet-arg: [old=1, v=1]\nkube-proxy-arg: [v=1]", "kubelet-arg: [--max-pods=1]"},
			want:  "0 kube-proxy-arg kube-proxy/v, 1 kubelet-arg kubelet/max-pods",
		},
		"a key with a plus adds": {
			files: []string{"kubelet-arg: [v=1]", "kubelet-arg+: [max-pods=1]", "kubelet-arg+: sync-frequency=1m"},
			want:  "0 kubelet-arg kubelet/v, 1 kubelet-arg kubelet/max-pods, 2 kubelet-arg kubelet/sync-frequency",
		},
		"a plus is nothing that stays": {
			files: []string{"kubelet-arg: [v=1]", "kubelet-arg+: [max-pods=1]", "kubelet-arg: []"},
		},
		"the command line adds": {
			files:     []string{"kubelet-arg: [v=1]"},
			arguments: []string{"--kubelet-arg=feature-gates=A=true,B=false", "data-dir=/x", "kube-scheduler-arg=v=1"},
			want: "line kube-scheduler-arg kube-scheduler/v, 0 kubelet-arg kubelet/v, " +
				"line kubelet-arg kubelet/A=true, line kubelet-arg kubelet/B=false",
		},
		"a server": {
			files: []string{"kube-apiserver-arg: [v=1]\nkube-controller-manager-arg: [v=1]\nkube-controller-arg: [v=1]"},
			want: "0 kube-apiserver-arg kube-apiserver/v, 0 kube-controller-arg kube-controller-manager/v, " +
				"0 kube-controller-manager-arg kube-controller-manager/v",
		},
		"an agent ignores what is for servers": {
			files: []string{"kube-apiserver-arg: [v=1]\nkubelet-arg: [v=1]"}, agent: true,
			want: "0 kubelet-arg kubelet/v",
		},
		"signs that say where a value goes": {
			files: []string{"kubelet-arg: [kube-reserved+=cpu=1, feature-gates-=A=true]"},
			want:  "0 kubelet-arg kubelet/kube-reserved, 0 kubelet-arg kubelet/A=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []settings.RancherFile
			for i, text := range test.files {
				file := settings.RancherFile{Path: string(rune('0' + i))}
				if err := yaml.Unmarshal([]byte(text), &file.Content); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			lists := settings.MergeRancher(files)
			var got []string
			for _, u := range lists.WithArguments("line", test.arguments).Uses(!test.agent) {
				text := u.Object + " " + u.Path + " " + string(u.Component) + "/" + u.Name
				if u.Kind == settings.Gate {
					text += "=" + u.Value
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProfile: the last profile counts, and only one that some version rejects is a setting.
func TestProfile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		arguments []string
		want      string
	}{
		"none":      {},
		"accepted":  {[]string{"--profile=cis"}, ""},
		"rejected":  {[]string{"--profile=cis-1.23"}, "profile=cis-1.23"},
		"the last":  {[]string{"--profile=cis", "--profile=cis-1.6"}, "profile=cis-1.6"},
		"corrected": {[]string{"--profile=cis-1.6", "--profile=cis"}, ""},
	} {
		lists := settings.MergeRancher(nil).WithArguments("rke2-server", tt.arguments)
		got := ""
		for _, use := range lists.Profile() {
			got += use.Name
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
