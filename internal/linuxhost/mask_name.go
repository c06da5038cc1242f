package linuxhost

import (
	"slices"
	"strings"
	"unicode"
)

// secretParts make a name that of a secret wherever they are in it. Names are compared in lower case, without what divides words.
var secretParts = []string{
	"password", "passwd", "passphrase", "passcode", "secret", "token", "credential", "apikey", "accesskey", "privatekey", "certificatekey",
	"encryptionkey", "signingkey", "sharedkey", "clientkeydata", "accountkey", "storagekey", "masterkey",
}

// secretWords make a name that of a secret as words of their own: "bypass" and "author" are none.
var secretWords = []string{"pass", "pwd", "psk"}

// secretEnds make a name that of a secret as its last word: --authorization-mode is none.
var secretEnds = []string{"auth", "authorization", "cookie"}

// plainEnds are last words of names whose values are about a secret, and none: token-ttl, secretName, ca-cert-hash.
var plainEnds = []string{
	"age", "alg", "algorithm", "audience", "audiences", "bytes", "ca", "cert", "certificate", "checksum", "class", "conf", "config", "count",
	"digest", "dir", "directory", "disabled", "enabled", "endpoint", "error", "expiration", "expired", "expires", "expiry", "file", "files",
	"fingerprint", "folder", "format", "group", "groups", "hash", "hashes", "host", "id", "issuer", "kind", "kubeconfig", "len", "length", "level",
	"limit", "method", "minutes", "mode", "name", "names", "namespace", "path", "paths", "policy", "provider", "reason", "ref", "request",
	"requests", "required", "response", "review", "reviews", "scope", "scopes", "seconds", "sha256", "sha512", "size", "source", "state",
	"status", "timeout", "ttl", "type", "uri", "url", "usage", "usages", "user", "username", "version", "volume",
}

// isSecret reports whether a name is that of a secret, in whatever style it is written.
func isSecret(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	if slices.Contains(secretEnds, last) {
		return true
	}
	// The id of a secret is one itself, as in Vault.
	if slices.Contains(plainEnds, last) && !strings.HasSuffix(strings.Join(words, ""), "secretid") {
		return false
	}
	if strings.EqualFold(name, "PWD") || strings.EqualFold(name, "OLDPWD") {
		return false // A shell's folders.
	}
	joined := strings.Join(words, "")
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(joined, part) }) ||
		slices.ContainsFunc(words, func(word string) bool { return slices.Contains(secretWords, word) })
}

// isHeader reports whether a name is that of an HTTP header whose value may have several words.
func isHeader(name string) bool {
	words := wordsOf(name)
	last := words[len(words)-1]
	return last == "authorization" || last == "cookie"
}

// wordsOf splits a name in snake_case, kebab-case, dotted.case or camelCase into words in lower case.
func wordsOf(name string) []string {
	var words []string
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
		begin := 0
		for i := 1; i < len(part); i++ {
			if unicode.IsLower(rune(part[i-1])) && unicode.IsUpper(rune(part[i])) {
				words = append(words, strings.ToLower(part[begin:i]))
				begin = i
			}
		}
		words = append(words, strings.ToLower(part[begin:]))
	}
	return words
}
