package hosts

import "regexp"

// secrets are what commands on a host are known to print that nobody else may read. What they are replaced with names the kind.
var secrets = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`), "[private key]"},
	// The rest of a key whose beginning was cut off.
	{regexp.MustCompile(`(?m)^[A-Za-z0-9+/]{40,}={0,2}$`), "[encoded]"},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), "[bootstrap token]"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`), "[token]"},
	{regexp.MustCompile(`\bK10[0-9a-f]{64}::\S+`), "[token]"},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}[masked]"},
	{regexp.MustCompile(`(?i)((?:password|passwd|token|secret|certificate-key|client-key-data)["']?\s*[:=]\s*["']?)[^\s"'\[][^\s"']*`), "${1}[masked]"},
	{regexp.MustCompile(`(?i)(--(?:token|certificate-key|password)\s+)\S+`), "${1}[masked]"},
	{regexp.MustCompile(`(://[^/\s:@]+:)[^/\s@]+@`), "${1}[masked]@"},
}

// Mask replaces what looks like a secret in the output of a command: private keys, bootstrap and bearer tokens, passwords.
func Mask(output string) string {
	for _, s := range secrets {
		output = s.pattern.ReplaceAllString(output, s.with)
	}
	return output
}
