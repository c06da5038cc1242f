package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// knowsRoots is a process that prints whether it knows any CA.
func knowsRoots() {
	pool, err := x509.SystemCertPool()
	fmt.Fprintln(os.Stdout, err == nil && !pool.Equal(x509.NewCertPool()))
}

// TestRootsInTheImage runs where there are no files, as in the image: without a caBundle, certificates are verified all the same.
func TestRootsInTheImage(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	nowhere := t.TempDir()
	command := exec.CommandContext(t.Context(), binary)
	command.Args = []string{"knows-roots"}
	command.Env = append(os.Environ(), "SSL_CERT_FILE="+nowhere+"/none", "SSL_CERT_DIR="+nowhere)
	output, err := command.CombinedOutput()
	if err != nil || strings.TrimSpace(string(output)) != "true" {
		t.Errorf("the process knows CAs: %s, %v", output, err)
	}
}
