package hosts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/linuxhost"
)

func kubeadmCoverage() coverage {
	return coverage{distribution: linuxhost.Kubeadm, folder: "/usr/bin", prefixes: []string{"/etc", "/var/lib/kubelet", "/tmp", "/run"}, repeatable: []string{"sysctl --system", "echo {{ ds }}"}}
}

// objects are a machine's, or those of a MachineSet.
func objects(t interface{ Fatal(...any) }, scope cover.Scope, version string, spec map[string]any) cover.Objects {
	encode := func(apiVersion, kind string, spec map[string]any) json.RawMessage {
		if scope == cover.MachineSet {
			spec = map[string]any{"template": map[string]any{"spec": spec}}
			if kind == "Machine" {
				kind = "MachineSet"
			} else {
				kind += "Template"
			}
		}
		content, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
			"name": "m", "labels": map[string]any{clusterv1.MachineControlPlaneLabel: ""},
		}, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	return cover.Objects{
		Machine:        encode("cluster.x-k8s.io/v1beta2", "Machine", map[string]any{"clusterName": "c", "version": version}),
		Infrastructure: encode("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine", map[string]any{"image": "base"}),
		Bootstrap:      encode("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", spec),
	}
}

type (
	fields = map[string]any
	list   = []any
)

func withFiles(files ...any) fields { return fields{"files": files} }

func file(path, content string, more ...string) fields {
	made := fields{"path": path, "content": content}
	for i := 0; i < len(more); i += 2 {
		made[more[i]] = more[i+1]
	}
	return made
}

func with(f fields, key string, value any) fields {
	f[key] = value
	return f
}

func withArgs(pairs ...string) fields {
	var args list
	for i := 0; i < len(pairs); i += 2 {
		args = append(args, fields{"name": pairs[i], "value": pairs[i+1]})
	}
	return fields{"joinConfiguration": fields{"nodeRegistration": fields{"kubeletExtraArgs": args}}}
}

func withGates(name string, on bool, more ...any) fields {
	gates := fields{name: on}
	for i := 0; i < len(more); i += 2 {
		gates[fmt.Sprint(more[i])] = more[i+1]
	}
	return fields{"clusterConfiguration": fields{"dns": fields{}, "featureGates": gates}}
}

// onlyGates is a configuration with nothing but feature gates, which are on.
func onlyGates(names ...string) fields {
	gates := fields{}
	for _, name := range names {
		gates[name] = true
	}
	return fields{"clusterConfiguration": fields{"featureGates": gates}}
}

func withPatches(folder string, files ...any) fields {
	spec := withFiles(files...)
	if folder != "" {
		spec["joinConfiguration"] = fields{"patches": fields{"directory": folder}}
	}
	return spec
}

func zipped(content []byte) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content)
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	const (
		files   = "/spec/files"
		args    = "/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs"
		folder  = "/spec/joinConfiguration/patches/directory"
		patches = "/etc/kubernetes/patches"
	)
	old, changed := file("/etc/a", "old"), file("/etc/a", "new")
	for name, tt := range map[string]struct {
		from, to fields
		// left is what is not covered.
		left []string
	}{
		"a file is added":                      {from: fields{}, to: withFiles(old)},
		"a file is changed":                    {from: withFiles(old), to: withFiles(changed)},
		"a file beside one that cannot be":     {from: withFiles(file("/run/b", "x"), old), to: withFiles(file("/run/b", "x"), changed)},
		"a file that cannot be beside another": {from: withFiles(file("/run/b", "x"), old), to: withFiles(file("/run/b", "y"), changed), left: []string{files}},
		"a file is removed":                    {from: withFiles(old), to: fields{}, left: []string{files}},
		"a file is removed, one added":         {from: withFiles(old), to: withFiles(file("/etc/b", "x")), left: []string{files}},
		"files in another order":               {from: withFiles(old, file("/etc/b", "x")), to: withFiles(file("/etc/b", "x"), old)},
		"a path twice":                         {from: fields{}, to: withFiles(old, changed), left: []string{files}},
		"a path twice, as it was":              {from: withFiles(old, changed), to: withFiles(old, changed, file("/etc/b", "x"))},
		"another owner":                        {from: withFiles(old), to: withFiles(file("/etc/a", "old", "owner", "etcd:etcd", "permissions", "0600"))},
		"an owner without a group":             {from: withFiles(old), to: withFiles(file("/etc/a", "old", "owner", "etcd")), left: []string{files}},
		"an owner by number":                   {from: withFiles(old), to: withFiles(file("/etc/a", "old", "owner", "0:0")), left: []string{files}},
		"no permissions at all":                {from: withFiles(old), to: withFiles(file("/etc/a", "old", "permissions", "0000")), left: []string{files}},
		"setuid":                               {from: withFiles(old), to: withFiles(file("/etc/a", "old", "permissions", "4755")), left: []string{files}},
		"others may write":                     {from: withFiles(old), to: withFiles(file("/etc/a", "old", "permissions", "0666")), left: []string{files}},
		"permissions in words":                 {from: withFiles(old), to: withFiles(file("/etc/a", "old", "permissions", "u=rw")), left: []string{files}},
		"base64":                               {from: fields{}, to: withFiles(file("/etc/a", "aGVsbG8=", "encoding", "base64"))},
		"no base64":                            {from: fields{}, to: withFiles(file("/etc/a", "hello!", "encoding", "base64")), left: []string{files}},
		"gzip and base64":                      {from: fields{}, to: withFiles(file("/etc/a", zipped([]byte("x")), "encoding", "gzip+base64"))},
		"no gzip":                              {from: fields{}, to: withFiles(file("/etc/a", "aGVsbG8=", "encoding", "gzip+base64")), left: []string{files}},
		"gzip without base64":                  {from: fields{}, to: withFiles(file("/etc/a", "x", "encoding", "gzip")), left: []string{files}},
		"gzip of much":                         {from: fields{}, to: withFiles(file("/etc/a", zipped(make([]byte, maxContent+1)), "encoding", "gzip+base64")), left: []string{files}},
		"another encoding":                     {from: fields{}, to: withFiles(file("/etc/a", "x", "encoding", "rot13")), left: []string{files}},
		"appended":                             {from: fields{}, to: withFiles(with(file("/etc/a", "x"), "append", true)), left: []string{files}},
		"not appended":                         {from: fields{}, to: withFiles(with(file("/etc/a", "x"), "append", false))},
		"from a Secret":                        {from: fields{}, to: withFiles(fields{"path": "/etc/a", "contentFrom": fields{"secret": fields{"name": "a", "key": "b"}}}), left: []string{files}},
		"a template":                           {from: fields{}, to: withFiles(file("/etc/a", "x", "contentFormat", "Template")), left: []string{files}},
		"no template":                          {from: fields{}, to: withFiles(file("/etc/a", "x", "contentFormat", "Raw"))},
		"cloud-init's template":                {from: fields{}, to: withFiles(file("/etc/a", "{{ ds.meta_data.hostname }}")), left: []string{files}},
		"a field that nobody knows":            {from: fields{}, to: withFiles(file("/etc/a", "x", "selinux", "y")), left: []string{files}},

		"a command is added":          {from: fields{}, to: fields{"preKubeadmCommands": list{"sysctl --system"}}},
		"it is added again":           {from: fields{"preKubeadmCommands": list{"sysctl --system"}}, to: fields{"preKubeadmCommands": list{"sysctl --system", "sysctl --system"}}},
		"a command is removed":        {from: fields{"postKubeadmCommands": list{"rm -rf /x"}}, to: fields{}},
		"another command":             {from: fields{}, to: fields{"postKubeadmCommands": list{"sysctl --system", "rm -rf /x"}}, left: []string{"/spec/postKubeadmCommands"}},
		"another beside what was":     {from: fields{"preKubeadmCommands": list{"a"}}, to: fields{"preKubeadmCommands": list{"a", "sysctl --system"}}},
		"the same unsafe one twice":   {from: fields{"preKubeadmCommands": list{"a"}}, to: fields{"preKubeadmCommands": list{"a", "a"}}, left: []string{"/spec/preKubeadmCommands"}},
		"a command with a template":   {from: fields{}, to: fields{"preKubeadmCommands": list{"echo {{ ds }}"}}, left: []string{"/spec/preKubeadmCommands"}},
		"commands are no list":        {from: fields{}, to: fields{"preKubeadmCommands": "a"}, left: []string{"/spec/preKubeadmCommands"}},
		"commands in another order":   {from: fields{"preKubeadmCommands": list{"a", "b"}}, to: fields{"preKubeadmCommands": list{"b", "a"}}},
		"commands of every boot":      {from: fields{}, to: fields{"bootCommands": list{"sysctl --system"}}, left: []string{"/spec/bootCommands"}},
		"users":                       {from: fields{}, to: fields{"users": list{fields{"name": "a"}}}, left: []string{"/spec/users"}},
		"a cluster's configuration":   {from: fields{}, to: fields{"clusterConfiguration": fields{"dns": fields{"imageTag": "x"}}}, left: []string{"/spec/clusterConfiguration/dns/imageTag"}},
		"kubelets' local mode":        {from: withGates("A", true), to: withGates("A", true, "ControlPlaneKubeletLocalMode", true)},
		"local mode, the first gate":  {from: fields{"clusterConfiguration": fields{"dns": fields{}}}, to: withGates("ControlPlaneKubeletLocalMode", true)},
		"local mode is taken away":    {from: withGates("ControlPlaneKubeletLocalMode", true), to: fields{"clusterConfiguration": fields{"dns": fields{}}}},
		"local mode was all":          {from: onlyGates("ControlPlaneKubeletLocalMode"), to: fields{}},
		"another gate was all":        {from: onlyGates("A"), to: fields{}, left: []string{"/spec/clusterConfiguration/featureGates/A"}},
		"local mode was not all":      {from: onlyGates("ControlPlaneKubeletLocalMode", "A"), to: fields{}, left: []string{"/spec/clusterConfiguration/featureGates/A", "/spec/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode"}},
		"nor was it beside dns":       {from: withGates("ControlPlaneKubeletLocalMode", true), to: fields{}, left: []string{"/spec/clusterConfiguration/dns", "/spec/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode"}},
		"local mode is switched off":  {from: withGates("ControlPlaneKubeletLocalMode", true), to: withGates("ControlPlaneKubeletLocalMode", false), left: []string{"/spec/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode"}},
		"local mode and another gate": {from: withGates("A", true), to: withGates("A", false, "ControlPlaneKubeletLocalMode", true), left: []string{"/spec/clusterConfiguration/featureGates/A", "/spec/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode"}},
		"taints beside an argument":   {from: withArgs("v", "1"), to: fields{"joinConfiguration": fields{"nodeRegistration": fields{"taints": list{}, "kubeletExtraArgs": list{fields{"name": "v", "value": "2"}}}}}, left: []string{"/spec/joinConfiguration/nodeRegistration/taints"}},
		"an argument is added":        {from: fields{"joinConfiguration": fields{"nodeRegistration": fields{"name": "x"}}}, to: fields{"joinConfiguration": fields{"nodeRegistration": fields{"name": "x", "kubeletExtraArgs": list{fields{"name": "v", "value": "2"}}}}}},
		"an argument is changed":      {from: withArgs("v", "1"), to: withArgs("v", "4", "max-pods", "50")},
		"an argument is removed":      {from: withArgs("v", "1", "max-pods", "9"), to: withArgs("v", "1"), left: []string{args}},
		"arguments in another order":  {from: withArgs("v", "1", "max-pods", "9"), to: withArgs("max-pods", "9", "v", "1")},
		"an argument twice":           {from: withArgs("v", "1"), to: withArgs("v", "1", "v", "2"), left: []string{args}},
		"a value with a blank":        {from: withArgs("v", "1"), to: withArgs("v", "1 2"), left: []string{args}},
		"a value with a quote":        {from: withArgs("v", "1"), to: withArgs("v", `"`), left: []string{args}},
		"a value that expands":        {from: withArgs("v", "1"), to: withArgs("v", "$HOME"), left: []string{args}},
		"a value to fill in":          {from: withArgs("v", "1"), to: withArgs("v", "{{ds}}"), left: []string{args}},
		"a strange name":              {from: withArgs("v", "1"), to: withArgs("v", "1", "-x", "1"), left: []string{args}},
		"labels of the node":          {from: withArgs("v", "1"), to: withArgs("v", "1", "node-labels", "a=b"), left: []string{args}},
		"labels as they were":         {from: withArgs("node-labels", "{{ a }}", "v", "1"), to: withArgs("node-labels", "{{ a }}", "v", "2")},
		"a folder of patches":         {from: withPatches(""), to: withPatches(patches, file(patches+"/etcd.json", "metadata: {}")), left: nil},
		"another folder":              {from: withPatches(patches, file(patches+"/etcd.json", "metadata: {}")), to: withPatches("/etc/p", file(patches+"/etcd.json", "metadata: {}"), file("/etc/p/etcd.json", "metadata: {}"))},
		"a patch is changed":          {from: withPatches(patches, file(patches+"/etcd.json", "metadata: {}")), to: withPatches(patches, file(patches+"/etcd.json", "spec: {}"))},
		"a folder without patches":    {from: withPatches("", old), to: withPatches(patches, old), left: []string{folder}},
		"a folder that is not there":  {from: withPatches("", old), to: withPatches("/tmp/p", old, file("/tmp/p/etcd.json", "metadata: {}")), left: []string{files, folder}},
		"a folder is removed":         {from: withPatches(patches, file(patches+"/etcd.json", "metadata: {}")), to: withPatches("", file(patches+"/etcd.json", "metadata: {}")), left: []string{folder}},
		"a static pod's resources":    {from: withPatches(""), to: withPatches(patches, file(patches+"/kube-apiserver0+strategic.yaml", "spec: {containers: [{name: kube-apiserver, resources: {requests: {cpu: 1}}}]}"))},
		"a static pod's image":        {from: withPatches(""), to: withPatches(patches, file(patches+"/etcd.yaml", "spec: {containers: [{name: etcd, image: evil}]}")), left: []string{files, folder}},
		"a folder of the host":        {from: withPatches(""), to: withPatches(patches, file(patches+"/kube-scheduler+json.json", `[{"op": "add", "path": "/spec/volumes/-", "value": {"hostPath": {"path": "/"}}}]`)), left: []string{files, folder}},
		"static pods from a folder":   {from: withPatches(""), to: withPatches(patches, file(patches+"/kubeletconfiguration.yaml", "staticPodPath: /etc/kubernetes/patches")), left: []string{files, folder}},
		"a kubelet's numbers":         {from: withPatches(""), to: withPatches(patches, file(patches+"/kubeletconfiguration.yaml", "maxPods: 50\n---\nsystemReserved: {cpu: 1}"))},
		"a second document":           {from: withPatches(""), to: withPatches(patches, file(patches+"/kubeletconfiguration.yaml", "maxPods: 50\n---\nstaticPodURL: http://x")), left: []string{files, folder}},
		"a patch in a folder below":   {from: withPatches(""), to: withPatches(patches, file(patches+"/a/etcd.yaml", "spec: {hostNetwork: true}"), file(patches+"/etcd.json", "metadata: {}")), left: []string{files, folder}},
		"a patch that was a file":     {from: withPatches("", file(patches+"/etcd.yaml", "spec: {hostPID: true}")), to: withPatches(patches, file(patches+"/etcd.yaml", "spec: {hostPID: true}")), left: []string{folder}},
		"what the kubelet executes":   {from: withArgs("v", "1"), to: withArgs("v", "1", "image-credential-provider-bin-dir", "/etc/kubernetes"), left: []string{args}},
		"static pods by an argument":  {from: withArgs("v", "1"), to: withArgs("v", "1", "pod-manifest-path", "/etc/kubernetes/x"), left: []string{args}},
		"another kubeconfig":          {from: withArgs("v", "1"), to: withArgs("v", "1", "kubeconfig", "/etc/kubernetes/x"), left: []string{args}},
		"another configuration":       {from: withArgs("v", "1"), to: withArgs("v", "1", "config", "/etc/kubernetes/x"), left: []string{args}},
		"mounts":                      {from: fields{}, to: fields{"mounts": list{list{"a", "b"}}}, left: []string{"/spec/mounts"}},
		"disks":                       {from: fields{}, to: fields{"diskSetup": fields{"partitions": list{}}}, left: []string{"/spec/diskSetup/partitions"}},
		"how the first node was made": {from: fields{"initConfiguration": fields{"nodeRegistration": fields{"name": "x"}}}, to: fields{"initConfiguration": fields{"nodeRegistration": fields{"name": "x", "kubeletExtraArgs": list{fields{"name": "v", "value": "2"}}}}}},
		"how it was not made":         {from: with(withArgs("v", "1"), "initConfiguration", fields{"skipPhases": list{"a"}}), to: with(withArgs("v", "1"), "initConfiguration", fields{"skipPhases": list{"a"}, "patches": fields{"directory": patches}}), left: []string{"/spec/initConfiguration/patches/directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
				var want []cover.Pointer
				for _, path := range tt.left {
					if scope == cover.MachineSet {
						path = "/spec/template" + path
					}
					want = append(want, cover.Pointer{Part: cover.PartBootstrap, Path: path})
				}
				if diff := cmp.Diff(want, uncovered(t, kubeadmCoverage(), scope, objects(t, scope, "v1.35.1", tt.from), objects(t, scope, "v1.35.1", tt.to))); diff != "" {
					t.Errorf("scope %d: left (-want +got):\n%s", scope, diff)
				}
			}
		})
	}
}

// uncovered applies what an updater answers, and gives what is left.
func uncovered(t interface {
	Helper()
	Fatal(args ...any)
}, c coverage, scope cover.Scope, current, desired cover.Objects,
) []cover.Pointer {
	t.Helper()
	before, err := cover.New(scope, current, desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &Updater{coverage: c}
	patches, err := u.patches(testContext, scope, current, desired)
	if err != nil {
		t.Fatal(err)
	}
	after, err := before.Apply(cover.Updater{Name: "hosts", MaxMinors: 1}, patches)
	if err != nil {
		t.Fatal(err)
	}
	// Lists count as a whole.
	var left []cover.Pointer
	for _, pointer := range after.Result().Uncovered {
		pointer.Path = element.ReplaceAllString(pointer.Path, "")
		if !slices.Contains(left, pointer) {
			left = append(left, pointer)
		}
	}
	return left
}

// element is the rest of a path from an element of a list on.
var element = regexp.MustCompile(`/[0-9]+(/.*)?$`)

// TestNotesNameThePath: what is not covered says which file, and why.
func TestNotesNameThePath(t *testing.T) {
	t.Parallel()
	c := kubeadmCoverage()
	c.prefixes = linuxhost.DefaultPrefixes()
	for _, path := range []string{"/etc/cron.d/evil", "/etc/sudoers.d/evil", "/usr/bin/bash", "/root/.ssh/authorized_keys", "/etc/kubernetes/manifests/evil.yaml"} {
		current, desired := objects(t, cover.Machine, "v1.35.1", fields{}), objects(t, cover.Machine, "v1.35.1", withFiles(file(path, "x")))
		if got := uncovered(t, c, cover.Machine, current, desired); len(got) != 1 {
			t.Errorf("%s: left are %v", path, got)
		}
		patches, err := (&Updater{coverage: c}).patches(testContext, cover.Machine, current, desired)
		if err != nil || len(patches.Notes) != 1 || !strings.Contains(patches.Notes[0], path) {
			t.Errorf("%s: the notes are %q, %v", path, patches.Notes, err)
		}
	}
}

// TestPatchesOfAWorker: kubeadm applies only patches of the kubelet to a worker, so others keep it from
// no update.
func TestPatchesOfAWorker(t *testing.T) {
	t.Parallel()
	const patches = "/etc/kubernetes/patches"
	for name, refused := range map[string]bool{"corednsdeployment.yaml": false, "etcd.yaml": false, "kubeletconfiguration.yaml": true} {
		for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
			spec := withPatches(patches, file(patches+"/"+name, "staticPodPath: /x"))
			current, desired := objects(t, scope, "v1.35.1", spec), objects(t, scope, "v1.36.1", spec)
			for _, raw := range []*json.RawMessage{&current.Machine, &desired.Machine} {
				*raw = bytes.Replace(*raw, []byte(clusterv1.MachineControlPlaneLabel), []byte("a"), 1)
			}
			left := uncovered(t, kubeadmCoverage(), scope, current, desired)
			if (len(left) > 0) != refused {
				t.Errorf("%s, scope %d: left %v", name, scope, left)
			}
		}
	}
}

// TestPatchesThatStay: a patch for kubeadm that nobody checked keeps the host from any update, also
// where it was there before.
func TestPatchesThatStay(t *testing.T) {
	t.Parallel()
	const patch = "/etc/kubernetes/patches/etcd.yaml"
	spec := func() fields {
		return withPatches("/etc/kubernetes/patches", file(patch, "spec: {hostPID: true}"))
	}
	for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
		current, desired := objects(t, scope, "v1.35.1", spec()), objects(t, scope, "v1.36.1", spec())
		got := uncovered(t, kubeadmCoverage(), scope, current, desired)
		if len(got) != 1 || !strings.HasSuffix(got[0].Path, "/spec/version") {
			t.Errorf("left are %v", got)
		}
		u := &Updater{coverage: kubeadmCoverage()}
		patches, err := u.patches(testContext, scope, current, desired)
		if err != nil || len(patches.Notes) != 1 || !strings.Contains(patches.Notes[0], patch) {
			t.Errorf("the notes are %q, %v", patches.Notes, err)
		}
	}
}

func TestCoverageOfVersions(t *testing.T) {
	t.Parallel()
	version := []cover.Pointer{{Part: cover.PartMachine, Path: "/spec/version"}}
	for name, tt := range map[string]struct {
		distribution linuxhost.Distribution
		from, to     string
		want         []cover.Pointer
	}{
		"a minor":          {distribution: linuxhost.Kubeadm, from: "v1.35.1", to: "v1.36.0"},
		"a patch of RKE2":  {distribution: linuxhost.RKE2, from: "v1.35.1+rke2r1", to: "v1.35.1+rke2r2"},
		"a minor of K3s":   {distribution: linuxhost.K3s, from: "v1.35.1+k3s1", to: "v1.36.0+k3s1"},
		"back":             {distribution: linuxhost.Kubeadm, from: "v1.36.0", to: "v1.35.9", want: version},
		"back by a patch":  {distribution: linuxhost.K3s, from: "v1.36.1+k3s1", to: "v1.36.0+k3s1", want: version},
		"no version after": {distribution: linuxhost.Kubeadm, from: "v1.36.0", to: "", want: version},
		"from nothing":     {distribution: linuxhost.Kubeadm, from: "", to: "v1.36.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
				want := slices.Clone(tt.want)
				if scope == cover.MachineSet && want != nil {
					want[0].Path = "/spec/template/spec/version"
				}
				c := coverage{distribution: tt.distribution, folder: "/usr/bin"}
				if diff := cmp.Diff(want, uncovered(t, c, scope, objects(t, scope, tt.from, nil), objects(t, scope, tt.to, nil))); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestOtherKindsCoverTheVersionOnly changes what kubeadm's kind covers.
func TestOtherKindsCoverTheVersionOnly(t *testing.T) {
	t.Parallel()
	for _, distribution := range []linuxhost.Distribution{linuxhost.RKE2, linuxhost.K3s} {
		c := coverage{distribution: distribution}
		got := uncovered(t, c, cover.Machine, objects(t, cover.Machine, "v1.35.1", fields{}), objects(t, cover.Machine, "v1.36.1", withFiles(file("/etc/a", "x"))))
		if diff := cmp.Diff([]cover.Pointer{{Part: cover.PartBootstrap, Path: "/spec/files"}}, got); diff != "" {
			t.Errorf("%s: left (-want +got):\n%s", distribution, diff)
		}
	}
}

// TestOtherConfigsAreNotCovered has configs of another contract: nobody knows their patches, so not
// even the version is covered.
func TestOtherConfigsAreNotCovered(t *testing.T) {
	t.Parallel()
	for _, edit := range []string{`"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta1"`, `"apiVersion":"bootstrap.cluster.x-k8s.io/v1alpha9"`} {
		current, desired := objects(t, cover.Machine, "v1.35.1", fields{}), objects(t, cover.Machine, "v1.35.2", withFiles(file("/etc/a", "x")))
		for _, o := range []*cover.Objects{&current, &desired} {
			o.Bootstrap = bytes.Replace(o.Bootstrap, []byte(`"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2"`), []byte(edit), 1)
		}
		if got := uncovered(t, kubeadmCoverage(), cover.Machine, current, desired); len(got) != 2 {
			t.Errorf("%s: left are %v", edit, got)
		}
	}
}
