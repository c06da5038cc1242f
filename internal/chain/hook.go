package chain

import (
	"context"
	"time"

	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/text"
)

// Failed calls are repeated after a time that doubles from first to last. It is counted from the hook's first failure for the step, so nothing
// but the answer itself has to be remembered.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 2 * time.Minute
)

// maxMessage bounds what is kept of an extension's words, in bytes.
const maxMessage = 1024

// callHook keeps the objects up first, so that a slow extension does not keep a person from scaling a group. The call comes before what is
// recorded of it: an extension may be called twice, but what it has not been asked is never recorded.
func (e execution) callHook(ctx context.Context, action CallHook) (Outcome, error) {
	if err := e.apply(ctx, e.state.ControlPlane.Stamp); err != nil {
		return Outcome{}, err
	}
	reply, err := e.effects.Call(ctx, action, e.decision)
	switch {
	case err != nil:
		since := e.since(action, true)
		return e.blocked(Answer{
			Hook: action.Hook, Step: action.Step, Failed: true, Message: text.Bound(err.Error(), maxMessage), Since: since,
			Given: e.now, Until: e.now.Add(min(max(e.now.Sub(since), firstRetry), lastRetry)),
		}), nil
	case reply.RetryAfter > 0:
		return e.blocked(Answer{
			Hook: action.Hook, Step: action.Step, Message: text.Bound(reply.Message, maxMessage), Since: e.since(action, false),
			Given: e.now, Until: e.now.Add(reply.RetryAfter),
		}), nil
	default:
		return e.record(ctx, action.Then)
	}
}

func (e execution) blocked(a Answer) Outcome {
	return Outcome{Answer: &a, RequeueAfter: a.Until.Sub(e.now)}
}

// since is when answers of this kind about this step began.
func (e execution) since(action CallHook, failed bool) time.Time {
	for _, a := range e.state.Answers {
		if a.Hook == action.Hook && a.Step.Equal(action.Step) && a.Failed == failed {
			return record.Past(a.Since, e.now)
		}
	}
	return e.now
}
