package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/windlass-dev/windlass/internal/risks"
)

// RiskFlags choose the list of known risks.
type RiskFlags struct{ prefix, file, key string }

const (
	flagRisks    = "known-risks"
	flagRisksKey = "known-risks-key"
)

// Add adds --known-risks and --known-risks-key, with a prefix before each name.
func (f *RiskFlags) Add(flags *pflag.FlagSet, prefix string) {
	f.prefix = prefix
	flags.StringVar(&f.file, prefix+flagRisks, "",
		"`FILE` with known risks that replaces the built-in list; its signature is in FILE.sig")
	flags.StringVar(&f.key, prefix+flagRisksKey, "",
		"`FILE` with the public key that must have signed --"+prefix+flagRisks+
			", in PEM: ECDSA or Ed25519")
}

// Load reads the list once: the built-in one where no flag names another. The error is an
// *InputError.
func (f *RiskFlags) Load() (*risks.Set, error) {
	switch {
	case f.file == "" && f.key == "":
		return risks.BuiltIn(), nil
	case f.key == "":
		return nil, InputErrorf("--"+f.prefix+flagRisksKey,
			"it is missing. Fix: name the public key that signs %s", f.file)
	case f.file == "":
		return nil, InputErrorf("--"+f.prefix+flagRisks,
			"it is missing. Fix: name the file, or omit the key")
	}
	var parts [3][]byte
	for i, name := range []string{f.file, f.file + ".sig", f.key} {
		content, err := readBounded(name)
		if err != nil {
			return nil, WrapInput("--"+f.prefix+flagRisks, err)
		}
		parts[i] = content
	}
	set, err := risks.ParseSigned(parts[0], parts[1], parts[2])
	return set, WrapInput("--"+f.prefix+flagRisks, err)
}

// readBounded reads at most one byte more than a list may have, which Parse then refuses.
func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading known risks: %w", err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	content, err := io.ReadAll(io.LimitReader(file, risks.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading known risks from %s: %w", name, err)
	}
	return content, nil
}
