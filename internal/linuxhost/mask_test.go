package linuxhost_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

func TestMask(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"hunter2hunter2", "abcdef.0123456789abcdef", "c2VjcmV0a2V5c2VjcmV0a2V5c2VjcmV0a2V5c2VjcmV0a2V5",
	} {
		for _, form := range []string{
			"password: %s", "token=%s", "Authorization: Bearer %s", "kubeadm join --token %s", "https://me:%s@host/", `"secret": "%s"`,
			"-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n%s", "client-key-data: %s", "x\n%s\n-----END PRIVATE KEY-----",
		} {
			text := strings.ReplaceAll(form, "%s", secret)
			if strings.HasPrefix(form, "x\n") && !strings.HasPrefix(secret, "c2") {
				continue
			}
			if masked := linuxhost.Mask(text); strings.Contains(masked, secret) {
				t.Errorf("%q shows in %q", secret, masked)
			}
		}
	}
	if masked := linuxhost.Mask("token: abcdef.0123456789abcdef"); masked != "token: [bootstrap token]" {
		t.Errorf("what is masked is masked again: %q", masked)
	}
	for _, harmless := range []string{"[upgrade] The configuration for this node was successfully upgraded!", "error: exit status 1", "https://10.0.0.1:6443/version", "v1.36.3"} {
		if masked := linuxhost.Mask(harmless); masked != harmless {
			t.Errorf("%q became %q", harmless, masked)
		}
	}
}

// TestMaskForms has a secret, hunter2, in the forms in which programs print one.
func TestMaskForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"AWS_SECRET_ACCESS_KEY=hunter2":                       "AWS_SECRET_ACCESS_KEY=[masked]",
		"export AWS_SECRET_ACCESS_KEY='hunter2'":              "export AWS_SECRET_ACCESS_KEY='[masked]'",
		"+ DB_PASSWORD=hunter2 hunter2":                       "+ DB_PASSWORD=[masked]",
		"env: AWS_SECRET_ACCESS_KEY=hunter2 HOME=/root":       "env: AWS_SECRET_ACCESS_KEY=[masked] HOME=/root",
		"api_key: hunter2":                                    "api_key: [masked]",
		"apiKey=hunter2":                                      "apiKey=[masked]",
		"x-api-key: hunter2":                                  "x-api-key: [masked]",
		"APIKEY := hunter2":                                   "APIKEY := [masked]",
		"passphrase: hunter2 hunter2":                         "passphrase: [masked]",
		"  - passphrase: hunter2":                             "  - passphrase: [masked]",
		"client_secret_value: hunter2":                        "client_secret_value: [masked]",
		"secret_id=hunter2":                                   "secret_id=[masked]",
		"db_pass=hunter2":                                     "db_pass=[masked]",
		"DB_PWD=hunter2":                                      "DB_PWD=[masked]",
		"--password=hunter2 --v=2":                            "--password=[masked] --v=2",
		"kubeadm join --token hunter2 --v=2":                  "kubeadm join --token [masked] --v=2",
		"kubeadm join --token \\\n  hunter2 --v=2":            "kubeadm join --token \\\n  [masked] --v=2",
		`--certificate-key "hunter2" x`:                       `--certificate-key "[masked]" x`,
		`"PASSWORD=hunter2 hunter2" next`:                     `"PASSWORD=[masked]" next`,
		`{"password": "hunter2\"hunter2", "user": "me"}`:      `{"password": "[masked]", "user": "me"}`,
		`msg="{\"apiKey\":\"hunter2\",\"a\":1}"`:              `msg="{\"apiKey\":\"[masked]\",\"a\":1}"`,
		`{"auths":{"r.example":{"auth":"bWU6aHVudGVyMg=="}}}`: `{"auths":{"r.example":{"auth":"[masked]"}}}`,
		"token: |\n  hunter2\n  hunter2\nnext: 1":             "token: |\n  [masked]\nnext: 1",
		"password:\n  hunter2\nnext: 1":                       "password:\n  [masked]\nnext: 1",
		`password: "hunter2` + "\nhunter2\"\nnext":            `password: "[masked]"` + "\nnext",
		`password: "hunter2`:                                  `password: "[masked]`,
		"Authorization: Basic hunter2":                        "Authorization: [masked]",
		`curl -H "Authorization: AWS4 a=hunter2" https://x`:   `curl -H "Authorization: [masked]" https://x`,
		"sent bearer Hunter2hunter2":                          "sent bearer [masked]",
		"Set-Cookie: session=hunter2; Path=/":                 "Set-Cookie: [masked]",
		"-u me:hunter2 https://mirror.example":                "-u me:[masked] https://mirror.example",
		"https://me:hunter2@mirror.example/x":                 "https://me:[masked]@mirror.example/x",
		"https://hunter2@mirror.example/x":                    "https://[masked]@mirror.example/x",
		"redis://:hunter2@cache":                              "redis://:[masked]@cache",
		"https://mirror.example/x?api_key=hunter2":            "https://mirror.example/x?api_key=[masked]",
		"got ghp_hunter2hunter2hunter2":                       "got [token]",
		"github_pat_11hunter2_hunter2":                        "[token]",
		"glpat-hunter2-hunter2":                               "[token]",
		"key AKIAHUNTER2HUNTER22X":                            "key [token]",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----\nx": "[private key]\nx",
		`"-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----\n"`:          `"[private key]\n"`,
		"hunter2hunter2==\n-----END RSA PRIVATE KEY-----\nx":                                 "[private key]\nx",
		"hunter2/-----END PRIVATE KEY-----":                                                  "[private key]",
	} {
		masked := linuxhost.Mask(text)
		if masked != want {
			t.Errorf("%q became\n%q, want\n%q", text, masked, want)
		}
		if strings.Contains(strings.ToLower(masked), "hunter2") {
			t.Errorf("%q shows the secret: %q", text, masked)
		}
		if again := linuxhost.Mask(masked); again != masked {
			t.Errorf("%q, masked again, is %q", masked, again)
		}
	}
}

func TestMaskLeavesOthers(t *testing.T) {
	t.Parallel()
	const sum = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
	for _, text := range []string{
		sum + "  v1.36.3/linux/amd64/kubelet", "sha256:" + sum, "digest: sha256:" + sum, "image: r.example/pause@sha256:" + sum,
		"--discovery-token-ca-cert-hash sha256:" + sum, "windlass-reason WrongDigest: kubelet has the SHA-256 " + sum,
		"Kubernetes v1.36.3+rke2r1", "v1.31.4 => v1.32.1", "error: exit status 1", "token-ttl: 24h0m0s", "--authorization-mode=Node,RBAC",
		"secretName: prod-ssh", "passwordFile: /etc/x", "private-key-file=/x", "automountServiceAccountToken: false", `token: ""`, "password: null",
		`secret: {"name": "x"}`, "secret:\n  name: x", "PWD=/root", "OLDPWD=/", "pass: 3", "bypass: all", "author: me", "auth: RBAC", "tokens: 1024",
		"basic authentication is used", "bearer authentication", "[bootstrap-token] Configured RBAC rules to allow Node Bootstrap tokens to get nodes",
		`secrets "prod-ssh" not found`, "ssh://root@10.0.0.1", "root@10.0.0.1: Permission denied (publickey)", "docker run -u 1000:1000 x",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "https://10.0.0.1:6443/version", "see https://x.example/@user",
		"[upgrade] The configuration for this node was successfully upgraded!", "client_secret_ref: x", "tokenReview: x",
	} {
		if masked := linuxhost.Mask(text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

// TestMaskNames writes the names of secrets in each style.
func TestMaskNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([][]string{{"api", "key"}, {"secret"}, {"client", "secret"}, {"access", "token"}, {"aws", "secret", "access", "key"}, {"ssh", "passphrase"}, {"db", "pass"}}).Draw(t, "words")
		title := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
		var camel strings.Builder
		for i, word := range words {
			if i > 0 {
				word = title(word)
			}
			camel.WriteString(word)
		}
		name := rapid.SampledFrom([]string{
			strings.Join(words, "_"), strings.Join(words, "-"), strings.Join(words, "."), strings.ToUpper(strings.Join(words, "_")), camel.String(), title(camel.String()),
		}).Draw(t, "name")
		form := rapid.SampledFrom([]string{"%s=!", "%s: !", `"%s":"!"`, "'%s' => '!'", "--%s=!", "--%s !", "a %s=! b", "a %s: ! b", "x?%s=!&y=1", `{\"%s\": \"!\"}`}).Draw(t, "form")
		secret := rapid.StringMatching(`[A-Za-z0-9/+]{6,20}`).Draw(t, "secret") + "!"
		text := strings.ReplaceAll(strings.ReplaceAll(form, "!", secret), "%s", name)
		masked := linuxhost.Mask(text)
		if strings.Contains(masked, secret) {
			t.Fatalf("%q became %q", text, masked)
		}
		if again := linuxhost.Mask(masked); again != masked {
			t.Fatalf("%q, masked again, is %q", masked, again)
		}
	})
}

// TestMaskIsLinear masks long lines that are hard to read. What is quadratic takes minutes, and the test's own limit ends it.
func TestMaskIsLinear(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"a", "a=", "pass=1 ", `"pass":"`, "pass: |\n", "A", "A\n", "-", "://", "-----BEGIN PRIVATE KEY-----", `\`, "password=\"", "--token \\\n"} {
		text := strings.Repeat(part, 64<<10/len(part))
		if masked := linuxhost.Mask(text); len(masked) > 8*len(text) {
			t.Errorf("%q many times became %d bytes", part, len(masked))
		}
	}
}

// FuzzLog appends what hosts may print to what a log may hold: the log is bounded, and cutting it again changes nothing.
func FuzzLog(f *testing.F) {
	f.Add("== 2026-01-01T00:00:00Z a running op\n  x\n", "restart", "op-1", "out\n== 2026-01-01T00:00:00Z b done op\n")
	f.Add("", "", "", strings.Repeat("\u00e9", 600)+"\n")
	f.Add("", "drain", "op", `{"auth":"bWU6aHVudGVyMg=="} --token \`+"\n x\npassword: |\n  a\n -----BEGIN RSA PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, log, step, operation, output string) {
		text := linuxhost.AppendLog(log, linuxhost.LogEntry{Time: time.Unix(1, 0), Operation: operation, Step: linuxhost.Name(step), State: linuxhost.LogRunning, Output: output})
		if len(text) > linuxhost.LogLimit {
			t.Fatalf("the log has %d bytes", len(text))
		}
		if again := linuxhost.CutLog(text, linuxhost.LogLimit); again != text {
			t.Fatalf("cut again, the log is\n%q, not\n%q", again, text)
		}
		_ = linuxhost.FailureOf(linuxhost.Job{Output: output, ExitCode: 1})
	})
}
