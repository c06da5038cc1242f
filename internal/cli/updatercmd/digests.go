package updatercmd

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

const digestsLong = `Digests prints the manifest of digests of a folder, or of a bundle (an uncompressed tar file). Updaters for Linux hosts
need a manifest to install binaries. It has a line, in the format of sha256sum, for each file that is named
VERSION/linux/ARCH/NAME, such as v1.36.3/linux/amd64/kubelet. Other files are omitted.

With --serial and --expires the first line contains both. A signed manifest needs them: Windlass refuses a manifest that
has expired, or that is older than the newest one it has seen. Give each manifest a higher serial.

The manifest describes the files that you have. First compare these files with what their makers published.`

func newDigests() *cobra.Command {
	var serial int64
	var expires string
	cmd := &cobra.Command{
		Use:   "digests FOLDER|BUNDLE.tar",
		Short: "Print the manifest of digests of a folder or bundle with binaries",
		Long:  digestsLong,
		Example: `  windlass updater digests ./binaries > SHA256SUMS
  tar -C ./binaries -cf bundle.tar . && windlass updater digests bundle.tar > SHA256SUMS
  windlass updater digests ./binaries --serial 7 --expires 2027-06-30 > SHA256SUMS`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.InputErrorf("FOLDER|BUNDLE.tar", "there must be exactly one, not %q", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			terms, err := parseTerms(serial, expires, time.Now())
			if err != nil {
				return err
			}
			digests, err := readDigests(args[0])
			if err != nil {
				return fmt.Errorf("computing the digests of %s: %w", args[0], err)
			}
			out := cli.LinePrinter{Out: cmd.OutOrStdout()}
			if terms != (linuxhost.Terms{}) {
				if err := out.Print(terms.String() + "\n"); err != nil {
					return err
				}
			}
			for _, name := range slices.Sorted(maps.Keys(digests)) {
				if err := out.Print(digests[name] + "  " + name + "\n"); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Int64Var(&serial, "serial", 0, "`NUMBER` of the manifest; at least 1, and higher than that of the one before")
	cmd.Flags().StringVar(&expires, "expires", "", "`DATE`, such as 2027-06-30, or time in RFC 3339, when the manifest ends to count")
	cli.CompleteNothing(cmd, "serial", "expires")
	return cmd
}

// parseTerms parses the flags that a manifest needs that is going to be signed.
func parseTerms(serial int64, expires string, now time.Time) (linuxhost.Terms, error) {
	if serial == 0 && expires == "" {
		return linuxhost.Terms{}, nil
	}
	if serial < 1 {
		return linuxhost.Terms{}, cli.InputErrorf("--serial", "%d is not a serial. Fix: give one of at least 1, together with --expires", serial)
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if parsed, err := time.Parse(layout, expires); err == nil {
			if !parsed.After(now) {
				return linuxhost.Terms{}, cli.InputErrorf("--expires", "%s is over, and hosts refuse a manifest that has expired. Fix: give a later date", expires)
			}
			return linuxhost.Terms{Serial: serial, Expires: parsed}, nil
		}
	}
	return linuxhost.Terms{}, cli.InputErrorf("--expires", "%q is not a date. Fix: give one such as 2027-06-30, together with --serial", expires)
}

// readDigests gives the digest of each binary by its name.
func readDigests(from string) (map[string]string, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	read := readTar
	if info.IsDir() {
		read = readFolder
	}
	err = read(from, func(name string, content io.Reader) error {
		sum := sha256.New()
		_, err := io.Copy(sum, content)
		digests[name] = hex.EncodeToString(sum.Sum(nil))
		return err
	})
	if err == nil && len(digests) == 0 {
		err = errors.New("it has no file that is named VERSION/linux/ARCH/NAME, such as v1.36.3/linux/amd64/kubelet")
	}
	return digests, err
}

// isBinaryName reports whether a name is VERSION/linux/ARCH/NAME. Names with blanks have no place in a manifest.
func isBinaryName(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[1] != "linux" || len(strings.Fields(name)) != 1 {
		return false
	}
	_, err := version.Parse(parts[0])
	return err == nil
}

func readFolder(folder string, each func(string, io.Reader) error) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isBinaryName(name) {
			return err
		}
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		return each(name, file)
	})
}

// readTar reads the files of a tar file. The last one of a name counts, as for tar.
func readTar(file string, each func(string, io.Reader) error) error {
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not a whole tar file, or is compressed: %w", err)
		}
		if name := path.Clean(header.Name); header.Typeflag == tar.TypeReg && isBinaryName(name) {
			if err := each(name, reader); err != nil {
				return err
			}
		}
	}
}
