package linuxhost

import (
	"context"
)

// Follow is Advance for an upgrade that nobody wants any longer: it looks, and begins nothing. Where neither Done nor Failure is set, and nothing is waited
// for, nothing goes on, and only a step that would have to begin could bring the upgrade further.
func Follow(ctx context.Context, u Upgrade) (Progress, error) {
	report, err := Look(ctx, u)
	if err != nil {
		return Progress{}, err
	}
	p := report.progress()
	if running, ok := Running(u.Goal, report.Facts); ok {
		p.Failure, p.Step, p.Message = nil, running.Step, running.Message
		return p, nil
	}
	if report.Refused != nil {
		return p, nil
	}
	switch next := report.Next(u.Goal).(type) {
	case Done:
		p.Done = true
	case Fail:
		p.Step, p.Failure = next.Failure.Step, &next.Failure
	case Wait:
		p.Step, p.Message = next.Step, next.Message
	case Start, SendPart, DrainNext, UncordonNext:
	}
	return p, nil
}
