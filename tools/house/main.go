// Command house measures how large the product is and how many hops lead from a cause to its effect, in
// one or several checkouts, and prints a column for each. Run it with `make house BASE=COMMIT`.
//
//	house NAME=DIR [NAME=DIR ...]
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// row is one figure of all checkouts.
type row struct {
	name   string
	values []string
}

func run(args []string, out io.Writer) error {
	var rows []row
	head := make([]string, 0, len(args))
	for i, arg := range args {
		name, dir, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=DIR", arg)
		}
		head = append(head, name)
		size, err := measureSize(dir)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", dir, err)
		}
		hops, err := measureHops(dir, paths)
		if err != nil {
			return fmt.Errorf("following calls in %s: %w", dir, err)
		}
		for j, r := range append(size.rows(), hops...) {
			if i == 0 {
				rows = append(rows, row{name: r.name})
			}
			rows[j].values = append(rows[j].values, r.values...)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t"+strings.Join(head, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, r.name+"\t"+strings.Join(r.values, "\t"))
	}
	return w.Flush()
}
