package hosts

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

var testContext = context.Background()

// made is a host as a configuration makes it: by cloud-init and kubeadm, which never looked at this package.
type made struct {
	files map[string]string
	args  map[string]string
	// ran are the commands that a host has run; folder is where kubeadm takes patches from.
	ran    map[string]bool
	folder string
	// name is what kubeadm called the node.
	name any
}

func makeHost(spec fields) made {
	host := made{files: map[string]string{}, args: map[string]string{}, ran: map[string]bool{}}
	entries, _ := spec["files"].(list)
	for _, entry := range entries {
		f, _ := entry.(fields)
		path, _ := f["path"].(string)
		content, _ := f["content"].(string)
		if content == "" {
			content = "what the Secret holds"
		}
		content = strings.ReplaceAll(content, "{{ x }}", "filled in")
		if appends, _ := f["append"].(bool); appends {
			content = host.files[path] + content
		}
		host.files[path] = content
	}
	for _, key := range []string{"preKubeadmCommands", "postKubeadmCommands"} {
		commands, _ := spec[key].(list)
		for _, command := range commands {
			text, _ := command.(string)
			host.ran[text] = true
		}
	}
	join, _ := spec["joinConfiguration"].(fields)
	registration, _ := join["nodeRegistration"].(fields)
	host.name = registration["name"]
	args, _ := registration["kubeletExtraArgs"].(list)
	for _, entry := range args {
		arg, _ := entry.(fields)
		name, _ := arg["name"].(string)
		host.args[name], _ = arg["value"].(string)
	}
	patches, _ := join["patches"].(fields)
	host.folder, _ = patches["directory"].(string)
	return host
}

// apply does to a host what a goal asks for.
func (m made) apply(g linuxhost.Goal) made {
	after := made{files: maps.Clone(m.files), args: maps.Clone(m.args), ran: maps.Clone(m.ran), folder: g.PatchesFolder, name: m.name}
	for _, f := range g.Files {
		after.files[f.Path] = string(f.Content)
	}
	for _, a := range g.KubeletArgs {
		after.args[a.Name] = a.Value
	}
	for _, command := range slices.Concat(g.Before, g.After) {
		after.ran[command] = true
	}
	return after
}

func anySpec(t *rapid.T, label string) fields {
	paths := rapid.SampledFrom([]string{"/etc/a", "/etc/b", "/etc/patches/etcd.json", "/run/c", "/etc/kubernetes/pki/ca.crt", "relative"})
	anyFile := rapid.Custom(func(t *rapid.T) any {
		f := fields{"path": paths.Draw(t, "path")}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			f["contentFrom"] = fields{"secret": fields{"name": "n", "key": "k"}}
		case 1:
			f["content"], f["append"] = "more", true
		case 2:
			f["content"] = "{{ x }}"
		default:
			f["content"] = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "content")
		}
		return f
	})
	spec := fields{}
	if files := rapid.SliceOfN(anyFile, 0, 4).Draw(t, label+" files"); len(files) > 0 {
		spec["files"] = files
	}
	command := rapid.Map(rapid.SampledFrom([]string{"sysctl --system", "reboot", "useradd x"}), func(s string) any { return s })
	for _, key := range []string{"preKubeadmCommands", "postKubeadmCommands"} {
		if commands := rapid.SliceOfN(command, 0, 3).Draw(t, label+" "+key); len(commands) > 0 {
			spec[key] = commands
		}
	}
	values := rapid.SampledFrom([]string{"1", "2", "a b", "{{x}}"})
	var args list
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"v", "max-pods", "node-labels"}), 0, 3, rapid.ID).Draw(t, label+" names") {
		args = append(args, fields{"name": name, "value": values.Draw(t, label+" value")})
	}
	registration := fields{"name": "n"}
	if len(args) > 0 {
		registration["kubeletExtraArgs"] = args
	}
	join := fields{"nodeRegistration": registration}
	if folder := rapid.SampledFrom([]string{"", "/etc/patches", "/tmp/patches"}).Draw(t, label+" folder"); folder != "" {
		join["patches"] = fields{"directory": folder}
	}
	if rapid.IntRange(0, 4).Draw(t, label+" joins") > 0 {
		spec["joinConfiguration"] = join
	}
	return spec
}

// TestWhatIsCoveredIsDone makes a host by one configuration, and has the update to another one done to it: where a field is covered, the host is as if it had
// been made by that other one. So what a running host cannot be given is never covered.
func TestWhatIsCoveredIsDone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := anySpec(t, "from"), anySpec(t, "to")
		current, desired := objects(t, cover.Machine, "v1.35.1", from), objects(t, cover.Machine, "v1.36.1", to)
		left := map[string]bool{}
		for _, pointer := range uncovered(t, kubeadmCoverage(), cover.Machine, current, desired) {
			left[pointer.Path] = true
		}
		spec, err := readSpec(desired.Bootstrap, cover.Machine)
		if err != nil {
			t.Fatal(err)
		}
		goal, err := kubeadmCoverage().withConfig(t.Context(), linuxhost.Goal{Distribution: linuxhost.Kubeadm, Version: version.MustParse("v1.36.1")}, spec)
		if err != nil {
			// kubeadm would get other patches than the config has: nothing is done.
			if !left["/spec/version"] {
				t.Fatalf("the version is covered, and refused: %v", err)
			}
			return
		}
		want, got := makeHost(to), makeHost(from).apply(goal)
		if left["/spec/version"] {
			t.Fatal("the version is not covered")
		}
		if !left["/spec/files"] {
			if diff := cmp.Diff(want.files, got.files); diff != "" {
				t.Fatalf("files are covered, and differ (-want +got):\n%s", diff)
			}
		}
		joins := !left["/spec/joinConfiguration"] && !left["/spec/joinConfiguration/nodeRegistration"]
		if joins && !left["/spec/joinConfiguration/nodeRegistration/name"] && got.name != want.name {
			t.Fatalf("the node is %v, not %v, and left are %v", got.name, want.name, left)
		}
		if joins && !left["/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs"] {
			if diff := cmp.Diff(want.args, got.args); diff != "" {
				t.Fatalf("arguments are covered, and differ (-want +got):\n%s", diff)
			}
		}
		if joins && !left["/spec/joinConfiguration/patches"] && !left["/spec/joinConfiguration/patches/directory"] && want.folder != got.folder {
			t.Fatalf("the folder of patches is covered, and is %q, not %q", got.folder, want.folder)
		}
		if !left["/spec/preKubeadmCommands"] && !left["/spec/postKubeadmCommands"] {
			for command := range want.ran {
				if !got.ran[command] {
					t.Fatalf("commands are covered, and %q did not run", command)
				}
			}
		}
		if got.ran["reboot"] && !makeHost(from).ran["reboot"] {
			t.Fatal("a command ran that may not be repeated")
		}
	})
}
