package ssh

import "golang.org/x/crypto/ssh"

// Trusts reports whether known hosts pin a key for an address.
func Trusts(knownHosts []byte, address string, key ssh.PublicKey) (bool, error) {
	pinned, err := parseKnownHosts(knownHosts)
	if err != nil {
		return false, err
	}
	return newTrust(pinned, address, nil).check("", nil, key) == nil, nil
}
