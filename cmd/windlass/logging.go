package main

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

// logOptions say how a command that serves writes its log.
type logOptions struct {
	format string
	// verbosity is the greatest V level that is written.
	verbosity int
}

func (o *logOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.format, "log-format", logFormatText, `how log lines are written: "text" or "json"`)
	flags.IntVarP(&o.verbosity, "verbosity", "v", 0, "how much is logged: 0 for changes of state, up to 10 for debugging")
}

// apply makes w the destination of the logs of this process, those of the libraries included.
func (o *logOptions) apply(w io.Writer) error {
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
		return fmt.Errorf("--log-format %q is unknown; use %q or %q", o.format, logFormatText, logFormatJSON)
	}
	logger := slog.New(handler)
	klog.SetSlogLogger(logger)
	// Also the standard library's log, in which HTTP servers report failed TLS handshakes.
	slog.SetDefault(logger)
	ctrl.SetLogger(klog.Background())
	return nil
}
