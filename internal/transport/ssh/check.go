package ssh

// CheckKey tells why a private key cannot be used, in words that hold nothing of it; nil where it can.
func CheckKey(content []byte) error {
	_, err := parseKey(content)
	return err
}
