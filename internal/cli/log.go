package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The values of --log-format.
const (
	logFormatText = "text"
	logFormatJSON = "json"
)

// LogOptions are the flags of the log of a command that serves.
type LogOptions struct {
	format string
	// verbosity is the greatest V level that is written.
	verbosity int
}

// AddFlags adds --log-format and --verbosity.
func (o *LogOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.format, "log-format", logFormatText, `how log lines are written: "text" or "json"`)
	flags.IntVarP(&o.verbosity, "verbosity", "v", 0, "how much is logged: 0 for changes of state, up to 10 for debugging")
}

// Apply makes w the destination of the logs of this process, including those of libraries.
func (o *LogOptions) Apply(w io.Writer) error {
	if o.verbosity < 0 || o.verbosity > 10 {
		return fmt.Errorf("--verbosity %d is not between 0 and 10", o.verbosity)
	}
	// A V level is the negative of a slog level.
	options := &slog.HandlerOptions{Level: slog.Level(-o.verbosity)}
	var handler slog.Handler
	switch o.format {
	case logFormatText:
		handler = slog.NewTextHandler(w, options)
	case logFormatJSON:
		handler = slog.NewJSONHandler(w, options)
	default:
		return fmt.Errorf("--log-format %q is unknown. Fix: use %q or %q", o.format, logFormatText, logFormatJSON)
	}
	logger := slog.New(handler)
	klog.SetSlogLogger(logger)
	// Also the standard library's log, in which HTTP servers report failed TLS handshakes.
	slog.SetDefault(logger)
	ctrl.SetLogger(klog.Background())
	return nil
}
