package cloudconfig

import (
	"fmt"
	"path"
	"strings"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

const (
	// Unit is the unit that carries out the configuration. It must be started once after each boot. It ends when the host is
	// bootstrapped, or cannot be.
	Unit = "cloud-final"
	// ResultPath is the file with the result. It is on the host's disk, so that a power cut does not lose it.
	ResultPath = folder + "/result"
	// LogPath is what the commands wrote.
	LogPath = "/var/log/cloud-init-output.log"

	folder = "/var/lib/cloud/instance"
	// sentinel is where bootstrap providers report success, by Cluster API's contract. A power cut loses it.
	sentinel = "/run/cluster-api/bootstrap-success.complete"
)

const unitFile = `[Unit]
Description=Configure this host from its user data
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash ` + folder + `/boot
`

// prologue runs bootcmd, and continues at the first boot only.
const prologue = `#!/bin/bash
# This script configures the host, in the order of cloud-init's modules.
# What commands print may have secrets, such as the token of a join.
(umask 077; : >>` + LogPath + `)
exec >>` + LogPath + ` 2>&1
cd ` + folder + ` || exit 1
chmod 700 .
sh ./bootcmd
if [[ -e started ]]; then
	# A run that has no result was interrupted by a power cut. Like cloud-init, do not repeat it.
	[[ -e result ]] || echo interrupted >result
	exit 0
fi
touch started || exit 1

fail() {
	{ echo failed; echo "$1"; tail -n 5 ` + LogPath + `; } >result
	exit 1
}

# place SOURCE PATH OWNER MODE APPEND sets the mode before it writes the content.
place() {
	mkdir -p "$(dirname "$2")" && (umask 077; : >>"$2") && chown "$3" "$2" && chmod "$4" "$2" &&
		if [[ $5 == true ]]; then cat "$1" >>"$2"; else cat "$1" >"$2"; fi
}
`

const epilogue = `
sh ./runcmd
code=$?
[[ -e ` + sentinel + ` ]] || fail "runcmd ended with exit status $code and did not report success"
echo success >result
`

// Bundle returns the files that a host must have before its first boot. When Unit runs there, it configures the host.
func (c Config) Bundle() map[string][]byte {
	var b strings.Builder
	b.WriteString(prologue)
	result := map[string][]byte{"/etc/systemd/system/" + Unit + ".service": []byte(unitFile)}
	for i, file := range c.Files {
		staged := fmt.Sprintf("files/%03d", i)
		result[path.Join(folder, staged)] = file.Content
		owner := file.Owner
		if owner == "" {
			owner = "root:root"
		}
		fmt.Fprintf(&b, "place %s %s %s %04o %t || fail %s\n",
			staged, quote(file.Path), quote(owner), file.Mode, file.Append, quote("write_files: cannot write "+file.Path))
	}
	for _, user := range c.Users {
		user.write(&b)
	}
	b.WriteString(epilogue)
	result[folder+"/boot"] = []byte(b.String())
	result[folder+"/bootcmd"] = shell(c.BootCommands)
	result[folder+"/runcmd"] = shell(c.RunCommands)
	return result
}

// write appends the commands that make the user.
func (u User) write(b *strings.Builder) {
	failed := " || fail " + quote("users: cannot make "+u.Name) + "\n"
	password := "*" // No password matches, and sshd lets the user in with a key.
	if u.Passwd != "" && !u.LockPasswd {
		password = u.Passwd
	}
	args := []string{"useradd", "--create-home", "--password", password}
	for _, option := range []struct{ name, value string }{
		{"--comment", u.Gecos}, {"--home-dir", u.HomeDir}, {"--shell", u.Shell}, {"--gid", u.PrimaryGroup},
		{"--groups", strings.Join(u.Groups, ",")},
	} {
		if option.value != "" {
			args = append(args, option.name, option.value)
		}
	}
	if u.Inactive {
		args = append(args, "--inactive", "0")
	}
	for _, group := range append([]string{u.PrimaryGroup}, u.Groups...) {
		if group != "" {
			b.WriteString("groupadd --force " + quote(group) + failed)
		}
	}
	b.WriteString(quoteAll(append(args, u.Name)) + failed)
	for _, rule := range u.Sudo {
		b.WriteString("echo " + quote(u.Name+" "+rule) + " >>/etc/sudoers.d/90-cloud-init-users" + failed)
	}
	if len(u.SSHAuthorizedKeys) == 0 {
		return
	}
	keys := quote(strings.Join(u.SSHAuthorizedKeys, "\n"))
	fmt.Fprintf(b, "home=~%s && install -d -m 700 -o %s \"$home/.ssh\" && echo %s >\"$home/.ssh/authorized_keys\" &&"+
		" chown %s \"$home/.ssh/authorized_keys\" && chmod 600 \"$home/.ssh/authorized_keys\"%s", u.Name, u.Name, keys, u.Name, failed)
}

func shell(commands []Command) []byte {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	for _, command := range commands {
		b.WriteString(string(command) + "\n")
	}
	return []byte(b.String())
}

// quote makes one word of the shell's of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return strings.Join(quoted, " ")
}

// State is how far a host's configuration is.
type State string

// The states.
const (
	// Running means that no result is recorded yet.
	Running State = "Running"
	// Succeeded means that the bootstrap provider's commands reported success.
	Succeeded State = "Succeeded"
	// Failed means that a step failed. The host does not try again.
	Failed State = "Failed"
	// Interrupted means that the power was cut before the end. The host does not try again.
	Interrupted State = "Interrupted"
)

// ParseResult reads the content of ResultPath. The message of Failed is what failed, with the last
// lines of the log, without secrets: after kubeadm init, they have the token of a join.
func ParseResult(content string) (state State, message string) {
	first, rest, _ := strings.Cut(content, "\n")
	switch first {
	case "success":
		return Succeeded, ""
	case "failed":
		return Failed, linuxhost.Mask(strings.TrimSpace(rest))
	case "interrupted":
		return Interrupted, ""
	}
	return Running, ""
}
