package linuxhost

// CheckPublicKey says what is wrong with a public key for ParseSignedManifest; nil where it can be used.
func CheckPublicKey(text string) error {
	_, err := parsePublicKey(text)
	return err
}
