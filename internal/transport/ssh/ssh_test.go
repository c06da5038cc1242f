package ssh_test

import (
	"encoding/pem"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
)

// notRoot makes the login believe that it is not root.
const notRoot = "echo 1000"

// sudoWorks stands in for a sudo that asks for nothing; it wants to be called as the real one must be.
const sudoWorks = `[ "$1 $2" = "-n -H" ] || exit 1; shift 2; exec env PATH=/usr/bin:/bin "$@"`

const systemPath = "/usr/bin:/bin"

func TestSuite(t *testing.T) {
	for name, lines := range map[string][]string{
		"root": nil,
		"sudo": {path(fake(t, map[string]string{"id": notRoot, "sudo": sudoWorks}), systemPath)},
		// The login prints something of its own, on both.
		"noise": {`ForceCommand echo welcome; printf warning >&2; eval "$SSH_ORIGINAL_COMMAND"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSSHD(t, lines...)
			porttest.RunHostSuite(t, func(t *testing.T) port.Host {
				t.Helper()
				return open(t, ssh.Options{Login: s.login()})
			})
		})
	}
}

func TestSuiteThroughBastion(t *testing.T) {
	s := startSSHD(t)
	b := startSSHD(t, "PermitTTY no", "ForceCommand false", "PermitOpen "+s.address)
	bastion := b.login()
	porttest.RunHostSuite(t, func(t *testing.T) port.Host {
		t.Helper()
		return open(t, ssh.Options{Login: s.login(), Bastion: &bastion})
	})
}

// Other shells than bash may be the login's; the command line must suit them.
func TestLoginShells(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash", "zsh", "fish", "csh", "tcsh", "ksh"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := os.Stat("/bin/" + shell); err != nil {
				t.Skip("it is not on this machine")
			}
			s := startSSHD(t, `ForceCommand exec `+shell+` -c "$SSH_ORIGINAL_COMMAND"`)
			wantRuns(t, open(t, ssh.Options{Login: s.login()}))
		})
	}
}

func TestBecomingRoot(t *testing.T) {
	bin := fake(t, map[string]string{"id": notRoot})
	for _, program := range []string{"sh", "bash"} {
		if err := os.Symlink("/bin/"+program, bin+"/"+program); err != nil {
			t.Fatal(err)
		}
	}
	onlySh := fake(t, nil)
	if err := os.Symlink("/bin/sh", onlySh+"/sh"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		line   string
		reason port.HostReason
		word   string
	}{
		"sudo wants a password": {
			line:   path(fake(t, map[string]string{"id": notRoot, "sudo": `echo "sudo: a password is required" >&2; exit 1`}), systemPath),
			reason: port.HostNotRoot, word: "sudo: a password is required",
		},
		"sudo is missing": {line: path(bin), reason: port.HostNotRoot, word: "sudo is not installed"},
		"no shell":        {line: "ForceCommand echo This account is not available.; exit 1", reason: port.HostNotRoot, word: "This account is not available."},
		"no commands":     {line: "ForceCommand true", reason: port.HostNotRoot, word: "user root"},
		"bash is missing": {line: path(onlySh), reason: port.HostSetup, word: "bash is not installed"},
		"no sessions":     {line: "MaxSessions 0", reason: port.HostUnreachable, word: "opens no session"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSSHD(t, test.line)
			_, err := run(t, open(t, ssh.Options{Login: s.login()}))
			wantReason(t, err, test.reason, test.word)
		})
	}
}

func TestLoginRefused(t *testing.T) {
	s := startSSHD(t)
	wrongKey := s.login()
	wrongKey.PrivateKeys = [][]byte{newKey(t, "ed25519").pem}
	_, err := run(t, open(t, ssh.Options{Login: wrongKey}))
	wantReason(t, err, port.HostLoginRefused, "user root", "authorized_keys", s.address)

	wrongUser := s.login()
	wrongUser.User = "nobody-at-all"
	_, err = run(t, open(t, ssh.Options{Login: wrongUser}))
	wantReason(t, err, port.HostLoginRefused, "nobody-at-all")

	many := s.login()
	many.PrivateKeys = nil
	for range 8 {
		many.PrivateKeys = append(many.PrivateKeys, newKey(t, "ed25519").pem)
	}
	_, err = run(t, open(t, ssh.Options{Login: many}))
	wantReason(t, err, port.HostLoginRefused, "8 private key(s)")

	second := s.login()
	second.PrivateKeys = [][]byte{newKey(t, "ecdsa").pem, s.user.pem}
	wantRuns(t, open(t, ssh.Options{Login: second}))
}

func TestBastionFails(t *testing.T) {
	s := startSSHD(t)
	for name, test := range map[string]struct {
		lines  []string
		change func(t *testing.T, bastion, target *ssh.Login)
		reason port.HostReason
		host   func(bastion, target ssh.Login) string
		word   string
		// timeout bounds the login, if it is not zero. On a busy machine, the bastion may miss it.
		timeout time.Duration
	}{
		"its key is not pinned": {
			change: func(t *testing.T, b, _ *ssh.Login) { t.Helper(); b.KnownHosts = pin(b.Address, newKey(t, "ed25519")) },
			reason: port.HostNotTrusted, host: func(b, _ ssh.Login) string { return b.Address }, word: "SHA256:",
		},
		"it does not let us in": {
			change: func(t *testing.T, b, _ *ssh.Login) { t.Helper(); b.PrivateKeys = [][]byte{newKey(t, "ed25519").pem} },
			reason: port.HostLoginRefused, host: func(b, _ ssh.Login) string { return b.Address }, word: "authorized_keys",
		},
		"it does not forward": {
			lines:  []string{"AllowTcpForwarding no"},
			reason: port.HostLoginRefused, host: func(b, _ ssh.Login) string { return b.Address }, word: "AllowTcpForwarding",
		},
		"the host's port is closed": {
			change: func(_ *testing.T, _, target *ssh.Login) { target.Address = "127.0.0.1:1" },
			reason: port.HostUnreachable, host: func(_, target ssh.Login) string { return target.Address }, word: "through the bastion",
		},
		"the host does not answer": {
			change: func(t *testing.T, _, target *ssh.Login) { t.Helper(); target.Address = blackHole(t) },
			reason: port.HostUnreachable, host: func(_, target ssh.Login) string { return target.Address }, word: "no answer within ", timeout: time.Second,
		},
		"the host's key is another one": {
			change: func(t *testing.T, _, target *ssh.Login) {
				t.Helper()
				target.KnownHosts = pin(target.Address, newKey(t, "ed25519"))
			},
			reason: port.HostNotTrusted, host: func(_, target ssh.Login) string { return target.Address }, word: "SHA256:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := startSSHD(t, test.lines...)
			bastion, target := b.login(), s.login()
			if test.change != nil {
				test.change(t, &bastion, &target)
			}
			_, err := run(t, open(t, ssh.Options{Login: target, Bastion: &bastion, ConnectTimeout: test.timeout}))
			for ; test.timeout > 0 && test.timeout < time.Minute && strings.Contains(err.Error(), bastion.Address); test.timeout *= 4 {
				_, err = run(t, open(t, ssh.Options{Login: target, Bastion: &bastion, ConnectTimeout: 4 * test.timeout}))
			}
			wantReason(t, err, test.reason, test.word)
			var failed *port.HostError
			if want := test.host(bastion, target); !errors.As(err, &failed) || failed.Host != want {
				t.Errorf("the host of %v is not %s", err, want)
			}
		})
	}
}

// blackHole takes connections and says nothing.
func blackHole(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestNotReached(t *testing.T) {
	key := newKey(t, "ed25519")
	for name, test := range map[string]struct{ address, word string }{
		"refused":    {address: "127.0.0.1:1", word: "refused"},
		"black hole": {address: blackHole(t), word: "no answer within " + shortTimeout.String()},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, ssh.Options{Login: ssh.Login{Address: test.address, User: "root", PrivateKeys: [][]byte{key.pem}}, ConnectTimeout: shortTimeout})
			_, err := run(t, h)
			wantReason(t, err, port.HostUnreachable, test.word, test.address)
		})
	}
}

func TestConnectionsEnd(t *testing.T) {
	s := startSSHD(t)
	via := func(t *testing.T, keepAlive time.Duration) (*relay, port.Host) {
		t.Helper()
		r := newRelay(t, s.address)
		login := s.login()
		login.Address, login.KnownHosts = r.address, pin(r.address, s.ed)
		return r, open(t, ssh.Options{Login: login, KeepAlive: keepAlive})
	}
	t.Run("cut while a script runs", func(t *testing.T) {
		r, h := via(t, 0)
		_, err := h.Exec(t.Context(), port.HostCommand{Script: "cat; # " + secretWord, Stdin: &reader{t: t, read: r.cut}})
		wantReason(t, err, port.HostLost, "before the script was seen to end")
		wantLost(t, r, h)
	})
	t.Run("silent while a script runs", func(t *testing.T) {
		r, h := via(t, 50*time.Millisecond)
		_, err := h.Exec(t.Context(), port.HostCommand{Script: "cat", Stdin: &reader{t: t, read: r.freeze}})
		wantReason(t, err, port.HostLost, "did not answer for 150ms")
	})
	t.Run("cut between two scripts", func(t *testing.T) {
		r, h := via(t, 0)
		wantRuns(t, h)
		wantRuns(t, h)
		if r.count() != 1 {
			t.Errorf("%d connections were made for two scripts", r.count())
		}
		r.cut()
		wantLost(t, r, h)
	})
	t.Run("closed while a script runs", func(t *testing.T) {
		_, h := via(t, 0)
		_, err := h.Exec(t.Context(), port.HostCommand{Script: "cat", Stdin: &reader{t: t, read: func() { _ = h.Close() }}})
		wantReason(t, err, port.HostLost, "closed by its user")
	})
	t.Run("the session's sshd is killed, then all of it", func(t *testing.T) {
		r, h := via(t, 0)
		_, err := h.Exec(t.Context(), port.HostCommand{Script: `kill -KILL $(ps -o ppid= -p $PPID); sleep 1`})
		wantReason(t, err, port.HostLost)
		s.stop()
		_, err = run(t, h)
		wantReason(t, err, port.HostLost)
		s.run(t)
		wantLost(t, r, h)
	})
}

// wantLost checks that a host that was logged in to once is not logged in to again.
func wantLost(t *testing.T, r *relay, h port.Host) {
	t.Helper()
	for range 2 {
		_, err := run(t, h)
		wantReason(t, err, port.HostLost)
	}
	if r.count() != 1 {
		t.Errorf("%d connections were made, want 1", r.count())
	}
}

// TestNextConnectionLeadsElsewhere has a host answer one script, end the connection, and pass the
// next one on to another host that the login and the authority of the hosts' keys count for, too.
func TestNextConnectionLeadsElsewhere(t *testing.T) {
	authority, user := newKey(t, "ed25519"), newKey(t, "ed25519")
	start := func(name string) *server {
		s := startSSHD(t, "HostCertificate DIR/certificate", "SetEnv WHO="+name)
		s.write(t, "certificate", certify(t, s.ed, authority, []string{name}, time.Now().Add(time.Hour)))
		s.write(t, "authorized_keys", gossh.MarshalAuthorizedKey(user.signer.PublicKey()))
		s.stop()
		s.run(t)
		return s
	}
	own, other := start("own"), start("other")
	r := newRelay(t, own.address)
	h := open(t, ssh.Options{Login: ssh.Login{
		Address: r.address, User: "root", PrivateKeys: [][]byte{user.pem}, HostNames: []string{"other", "own"},
		KnownHosts: []byte("@cert-authority * " + string(gossh.MarshalAuthorizedKey(authority.signer.PublicKey()))),
	}})
	who := port.HostCommand{Script: `tr '\0' '\n' </proc/$PPID/environ | grep ^WHO= || echo "WHO=$WHO"`}
	if got, err := h.Exec(t.Context(), who); err != nil || string(got.Stdout) != "WHO=own\n" {
		t.Fatalf("got %+v, %v", got, err)
	}
	r.lead(other.address)
	r.cut()
	wantLost(t, r, h)
}

func TestOptions(t *testing.T) {
	good := ssh.Login{Address: "host-1", User: "root", PrivateKeys: [][]byte{newKey(t, "ed25519").pem}}
	if _, err := ssh.New(ssh.Options{Login: good}); err != nil {
		t.Fatal(err)
	}
	_, private := pem.Decode(good.PrivateKeys[0])
	if len(private) > 0 {
		t.Fatal("more than a key")
	}
	raw, err := gossh.ParseRawPrivateKey(good.PrivateKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	block, err := gossh.MarshalPrivateKeyWithPassphrase(raw, "", []byte(secretWord))
	if err != nil {
		t.Fatal(err)
	}
	locked := pem.EncodeToMemory(block)
	for name, test := range map[string]struct {
		change func(*ssh.Login)
		word   string
	}{
		"no address":      {change: func(l *ssh.Login) { l.Address = "" }, word: "not host:port"},
		"only a port":     {change: func(l *ssh.Login) { l.Address = ":22" }, word: "not host:port"},
		"too many colons": {change: func(l *ssh.Login) { l.Address = "a:b:c" }, word: "not host:port"},
		"no user":         {change: func(l *ssh.Login) { l.User = "" }, word: "no user"},
		"no key":          {change: func(l *ssh.Login) { l.PrivateKeys = nil }, word: "no private key"},
		"not a key":       {change: func(l *ssh.Login) { l.PrivateKeys = [][]byte{[]byte(secretWord)} }, word: "private key 1"},
		"a broken key": {change: func(l *ssh.Login) {
			l.PrivateKeys[0] = []byte(strings.Replace(string(l.PrivateKeys[0]), "b3BlbnNzaC1r", "QUFBQUFBQUFB", 1))
		}, word: "private key 1"},
		"a passphrase":       {change: func(l *ssh.Login) { l.PrivateKeys = append(l.PrivateKeys, locked) }, word: "private key 2: it needs a passphrase"},
		"known hosts":        {change: func(l *ssh.Login) { l.KnownHosts = []byte("# fine\nhost-1 ssh-ed25519 AAAA\n") }, word: "line 2"},
		"known hosts, words": {change: func(l *ssh.Login) { l.KnownHosts = []byte("host-1\n") }, word: "line 1: it has no key"},
		"an unknown marker":  {change: func(l *ssh.Login) { l.KnownHosts = append([]byte("@trust "), pin("host-1", newKey(t, "ecdsa"))...) }, word: "@trust"},
	} {
		t.Run(name, func(t *testing.T) {
			login := good
			login.PrivateKeys = [][]byte{good.PrivateKeys[0]}
			test.change(&login)
			_, err := ssh.New(ssh.Options{Login: login})
			wantReason(t, err, port.HostSetup, test.word)
			_, err = ssh.New(ssh.Options{Login: good, Bastion: &login})
			wantReason(t, err, port.HostSetup, test.word)
		})
	}
}
