package isolationtest

import "context"

// Possible reports whether this process may make a network and a PID namespace and change the network in it. why says what is missing.
func Possible(ctx context.Context) (ok bool, why string) { return possible(ctx) }
