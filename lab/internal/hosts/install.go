//go:build linux

package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The users of every host besides root.
const (
	// Ops may use sudo without a password.
	Ops = "ops"
	// NoSudo may not use sudo.
	NoSudo = "nosudo"
)

// uids are higher than any that a distribution gives to people, so that they meet none of the machine's.
var uids = map[string]int{Ops: 64101, NoSudo: 64102}

const sshdConfig = `Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /etc/ssh/keys/%u .ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PidFile none
Subsystem sftp internal-sftp
`

// The unit is Debian's, but for the log: it goes to the journal.
const sshUnit = `[Unit]
Description=OpenBSD Secure Shell server
[Service]
Type=notify
ExecStart=/usr/sbin/sshd -D -e
KillMode=process
Restart=on-failure
RestartPreventExitStatus=255
[Install]
WantedBy=multi-user.target
`

// install writes what makes the overlay a host: the init, names, users, sudo, sshd, and the files of the options.
func (h *Host) install() {
	h.tb.Helper()
	h.check(errors.Join(h.installBinary(), h.installNames(), h.installUsers(), h.installSudo(), h.installSSH()))
	for path, content := range h.options.Files {
		h.Write(path, content)
	}
	for path, target := range h.options.Links {
		h.check(h.link(target, path))
	}
	for _, unit := range append([]string{"ssh"}, h.options.Enable...) {
		h.check(h.link("/etc/systemd/system/"+unit+".service", "/etc/systemd/system/multi-user.target.wants/"+unit+".service"))
	}
}

// installNames gives the host its name. There is no DNS: a look-up fails at once.
func (h *Host) installNames() error {
	h.tb.Helper()
	h.Remove("/etc/resolv.conf")
	return errors.Join(
		h.write("/etc/resolv.conf", nil, 0o644),
		h.write("/etc/hostname", []byte(h.options.Name+"\n"), 0o644),
		h.write("/etc/hosts", fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", h.Address(), h.options.Name), 0o644),
	)
}

func (h *Host) installUsers() error {
	var errs []error
	for _, name := range []string{Ops, NoSudo} {
		id := uids[name]
		home := "/home/" + name
		errs = append(errs,
			h.setLine("/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash", name, id, id, home), 0o644),
			h.setLine("/etc/group", fmt.Sprintf("%s:x:%d:", name, id), 0o644),
			h.setLine("/etc/shadow", name+":*:20000:0:99999:7:::", 0o640),
			h.makeFolder(home),
			os.Chown(filepath.Join(h.Root(), home), id, id),
		)
	}
	// No password, but no lock either: sshd refuses users who are locked.
	errs = append(errs, h.setLine("/etc/shadow", "root:*:20000:0:99999:7:::", 0o640), os.Chmod(h.Root()+"/root", 0o700))
	return errors.Join(errs...)
}

// setLine puts a line in the place of the one with the same first field.
func (h *Host) setLine(path, line string, mode os.FileMode) error {
	text, err := h.Read(path)
	if err != nil {
		return err
	}
	key, _, _ := strings.Cut(line, ":")
	var lines []string
	for old := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		if !strings.HasPrefix(old, key+":") {
			lines = append(lines, old)
		}
	}
	return h.write(path, []byte(strings.Join(append(lines, line), "\n")+"\n"), mode)
}

func (h *Host) installSudo() error {
	errs := []error{h.write("/etc/sudoers.d/"+Ops, []byte(Ops+" ALL=(ALL) NOPASSWD: ALL\n"), 0o440)}
	if _, err := os.Stat("/usr/bin/sudo"); err != nil {
		program, err := multiCall()
		if err != nil {
			return err
		}
		errs = append(errs, h.write("/usr/bin/sudo", program.bytes, 0o755|os.ModeSetuid))
	}
	return errors.Join(errs...)
}

func (h *Host) installSSH() error {
	h.keys = map[string]Key{}
	errs := []error{
		h.write("/etc/ssh/sshd_config", []byte(sshdConfig), 0o644),
		h.write("/etc/systemd/system/ssh.service", []byte(sshUnit), 0o644),
		h.newHostKey(),
	}
	for _, user := range []string{"root", Ops, NoSudo} {
		k, err := NewKey()
		if user == "root" && h.options.RootKey != nil {
			k = *h.options.RootKey
		}
		h.keys[user] = k
		errs = append(errs, err, h.write("/etc/ssh/keys/"+user, k.authorized, 0o644))
	}
	return errors.Join(errs...)
}
