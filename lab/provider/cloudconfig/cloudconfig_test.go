package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
)

var instance = Instance{Hostname: "machine-1", ID: "42"}

func zip(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// bootstrapData is what the kubeadm bootstrap provider itself writes, for each kind of machine.
func bootstrapData(tb testing.TB) map[string][]byte {
	tb.Helper()
	yes, no := true, false
	base := cloudinit.BaseUserData{
		BootCommands:        []string{`echo "at boot" > /run/at-boot`},
		PreKubeadmCommands:  []string{`hostnamectl set-hostname "{{ ds.meta_data.local_hostname }}"`, "a=1"},
		PostKubeadmCommands: []string{`echo "$a" 'x' "{{ ds.meta_data.instance_id }}" > /run/after`},
		AdditionalFiles: []bootstrapv1.File{
			{Path: "/etc/plain", Content: "one\n  two\n", Owner: "root:adm", Permissions: "0600"},
			{Path: "/etc/base64", Content: base64.StdEncoding.EncodeToString([]byte("a\x00b")), Encoding: bootstrapv1.Base64},
			{Path: "/etc/gzip", Content: base64.StdEncoding.EncodeToString(zip(tb, "zipped")), Encoding: bootstrapv1.GzipBase64},
			{Path: "/etc/hosts", Content: "10.0.0.1 other", Append: &yes},
		},
		Users: []bootstrapv1.User{{
			Name: "admin", Gecos: "An admin", Groups: "adm, sudo", Sudo: "ALL=(ALL) NOPASSWD:ALL", Shell: "/bin/bash", HomeDir: "/srv/admin",
			LockPassword: &no, SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"},
		}},
		NTP: &bootstrapv1.NTP{Enabled: &yes, Servers: []string{"ntp.example.com"}},
	}
	pair := &certs.KeyPair{Cert: []byte("certificate\n"), Key: []byte("key\n")}
	certificates := secret.Certificates{&secret.Certificate{
		Purpose: secret.ClusterCA, CertFile: "/etc/kubernetes/pki/ca.crt", KeyFile: "/etc/kubernetes/pki/ca.key", KeyPair: pair,
	}}
	const configuration = "apiVersion: kubeadm.k8s.io/v1beta4\nname: '{{ ds.meta_data.local_hostname }}'\n"
	must := func(data []byte, err error) []byte {
		if err != nil {
			tb.Fatal(err)
		}
		return data
	}
	return map[string][]byte{
		"init": must(cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
			BaseUserData: base, Certificates: certificates, ClusterConfiguration: configuration, InitConfiguration: configuration,
		})),
		"join control plane": must(cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{
			BaseUserData: base, Certificates: certificates, JoinConfiguration: configuration,
		})),
		"join worker": must(cloudinit.NewNode(&cloudinit.NodeInput{BaseUserData: base, JoinConfiguration: configuration})),
	}
}

func TestParseReadsWhatTheBootstrapProviderWrites(t *testing.T) {
	const body = "apiVersion: kubeadm.k8s.io/v1beta4\nname: 'machine-1'\n\n"
	pki := []File{
		{Path: "/etc/kubernetes/pki/ca.crt", Owner: "root:root", Mode: 0o640, Content: []byte("certificate\n")},
		{Path: "/etc/kubernetes/pki/ca.key", Owner: "root:root", Mode: 0o600, Content: []byte("key\n")},
	}
	additional := []File{
		{Path: "/etc/plain", Owner: "root:adm", Mode: 0o600, Content: []byte("one\n  two\n")},
		{Path: "/etc/base64", Mode: 0o644, Content: []byte("a\x00b")},
		{Path: "/etc/gzip", Mode: 0o644, Content: []byte("zipped")},
		{Path: "/etc/hosts", Mode: 0o644, Content: []byte("10.0.0.1 other\n"), Append: true},
	}
	tests := map[string]struct {
		pki     []File
		kubeadm File
		command Command
	}{
		"init": {
			pki, File{Path: "/run/kubeadm/kubeadm.yaml", Content: []byte("---\n" + body + "---\n" + body)},
			"kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete",
		},
		"join control plane": {
			pki, File{Path: "/run/kubeadm/kubeadm-join-config.yaml", Content: []byte(body)},
			"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/cluster-api/bootstrap-success.complete",
		},
		"join worker": {
			nil, File{Path: "/run/kubeadm/kubeadm-join-config.yaml", Content: []byte("---\n" + body)},
			"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/cluster-api/bootstrap-success.complete",
		},
	}
	for name, data := range bootstrapData(t) {
		t.Run(name, func(t *testing.T) {
			test := tests[name]
			got, err := Parse(data, instance)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			for i := range got.Files {
				// How many line breaks end a block of YAML is upstream's matter.
				got.Files[i].Content = bytes.TrimRight(got.Files[i].Content, "\n")
			}
			test.kubeadm.Owner, test.kubeadm.Mode = "root:root", 0o640
			want := Config{
				BootCommands: []Command{`echo "at boot" > /run/at-boot`},
				Files:        append(append(append([]File{}, test.pki...), additional...), test.kubeadm),
				Users: []User{{
					Name: "admin", Gecos: "An admin", Groups: []string{"adm", "sudo"},
					Sudo:  []string{"ALL=(ALL) NOPASSWD:ALL"},
					Shell: "/bin/bash", HomeDir: "/srv/admin",
					SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"},
				}},
				RunCommands: []Command{
					`hostnamectl set-hostname "machine-1"`, "a=1", test.command, `echo "$a" 'x' "42" > /run/after`,
				},
			}
			for i := range want.Files {
				want.Files[i].Content = bytes.TrimRight(want.Files[i].Content, "\n")
			}
			last := len(got.Files) - 1
			if got.Files[last].Path != "/run/cluster-api/placeholder" {
				t.Errorf("the last file is %s", got.Files[last].Path)
			}
			got.Files = got.Files[:last]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want Config
		err  string
	}{
		"nothing to do":          {text: "#cloud-config\n"},
		"without a template":     {text: "#cloud-config\nruncmd: ['echo {{ v1.x }}']", want: Config{RunCommands: []Command{"echo {{ v1.x }}"}}},
		"commands as lists":      {text: "#cloud-config\nruncmd:\n- [echo, 'a b', \"it's\", 1]\n- null", want: Config{RunCommands: []Command{`'echo' 'a b' 'it'\''s' '1'`}}},
		"all variables":          {text: "## template: jinja\n#cloud-config\nruncmd: ['{{v1.local_hostname}} {{ instance_id }}']", want: Config{RunCommands: []Command{"machine-1 42"}}},
		"other modules":          {text: "#cloud-config\npackages: [x]", err: "has packages"},
		"disks":                  {text: "#cloud-config\ndisk_setup: {}", err: "has disk_setup (diskSetup.partitions)"},
		"file systems":           {text: "#cloud-config\nfs_setup: []", err: "has fs_setup (diskSetup.filesystems)"},
		"mounts":                 {text: "#cloud-config\nmounts: []", err: "has mounts"},
		"Ignition":               {text: `{"ignition":{"version":"2.3.0"}}`, err: "is Ignition"},
		"a script":               {text: "#!/bin/sh\n", err: "no cloud-config"},
		"another engine":         {text: "## template: basic\n#cloud-config", err: `engine "basic"`},
		"an unknown variable":    {text: "## template: jinja\n#cloud-config\nruncmd: ['{{ ds.meta_data.region }}']", err: `asks for "ds.meta_data.region"`},
		"a statement":            {text: "## template: jinja\n#cloud-config\n{% if x %}", err: `contains "{%"`},
		"a comment":              {text: "## template: jinja\n#cloud-config\nruncmd: ['echo ${#a}']", err: `contains "{#"`},
		"an open brace":          {text: "## template: jinja\n#cloud-config\nruncmd: ['{{ x']", err: `without "}}"`},
		"no YAML":                {text: "#cloud-config\na: b: c", err: "reading the cloud-config"},
		"another type":           {text: "#cloud-config\nruncmd: ls", err: "reading the cloud-config"},
		"a command of maps":      {text: "#cloud-config\nbootcmd: [{a: b}]", err: "bootcmd[0] is"},
		"a field twice":          {text: "#cloud-config\nruncmd: []\nruncmd: []", err: "reading the cloud-config"},
		"a file's unknown field": {text: "#cloud-config\nwrite_files: [{path: /a, defer: true}]", err: "defer"},
		"a relative path":        {text: "#cloud-config\nwrite_files: [{path: a}]", err: `write_files[0] ("a"): the path is not absolute`},
		"the root folder":        {text: "#cloud-config\nwrite_files: [{path: /a/..}]", err: "root folder"},
		"an encoding":            {text: "#cloud-config\nwrite_files: [{path: /a, encoding: rot13}]", err: `encoding "rot13"`},
		"no base64":              {text: "#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '*'}]", err: "decoding base64"},
		"no gzip":                {text: "#cloud-config\nwrite_files: [{path: /a, encoding: gz+b64, content: 'aGk='}]", err: "decoding gzip"},
		"permissions":            {text: "#cloud-config\nwrite_files: [{path: /a, permissions: '0888'}]", err: `permissions "0888"`},
		"an owner":               {text: "#cloud-config\nwrite_files: [{path: /a, owner: 'a;b'}]", err: `owner "a;b"`},
		"a user without a name":  {text: "#cloud-config\nusers: [{gecos: x}]", err: "no name"},
		"a user's name":          {text: "#cloud-config\nusers: [{name: 'a b'}]", err: `"a b" is no name`},
		"a user's shell":         {text: "#cloud-config\nusers: [{name: a, shell: sh}]", err: "not absolute"},
		"a user's password":      {text: "#cloud-config\nusers: [{name: a, passwd: 'x:y'}]", err: "colon"},
		"a user's groups":        {text: "#cloud-config\nusers: [{name: a, groups: [1]}]", err: "groups has 1"},
		"lists of a user": {
			text: "#cloud-config\nusers: [{name: a, groups: [b, c], sudo: ['x', 'y'], inactive: true, lock_passwd: false, passwd: h}]",
			want: Config{Users: []User{{Name: "a", Groups: []string{"b", "c"}, Sudo: []string{"x", "y"}, Inactive: true, Passwd: "h"}}},
		},
		"no sudo": {text: "#cloud-config\nusers: [{name: a, sudo: false}]", want: Config{Users: []User{{Name: "a", LockPasswd: true}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(test.text), instance)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseResult(t *testing.T) {
	for content, want := range map[string][2]string{
		"": {string(Running), ""}, "success\n": {string(Succeeded), ""}, "interrupted\n": {string(Interrupted), ""},
		"failed\nruncmd ended\nlog\n": {string(Failed), "runcmd ended\nlog"}, "nonsense": {string(Running), ""},
	} {
		if state, message := ParseResult(content); string(state) != want[0] || message != want[1] {
			t.Errorf("%q: %s %q, want %q", content, state, message, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, data := range bootstrapData(f) {
		f.Add(data)
	}
	f.Add([]byte("#cloud-config\nusers: [{name: a, sudo: [x], groups: 'a, b'}]\nwrite_files: [{path: /../a, permissions: '07777'}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, instance)
		if err != nil {
			if diff := cmp.Diff(Config{}, c); diff != "" {
				t.Errorf("an error and a configuration: %s", diff)
			}
			return
		}
		for _, file := range c.Files {
			if !strings.HasPrefix(file.Path, "/") || file.Path == "/" || strings.Contains(file.Path, "/../") {
				t.Errorf("path %q", file.Path)
			}
		}
		for path := range c.Bundle() {
			if !strings.HasPrefix(path, folder+"/") && !strings.HasPrefix(path, "/etc/systemd/system/") {
				t.Errorf("the bundle has %q", path)
			}
		}
	})
}
