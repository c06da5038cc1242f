package fleet

import "time"

// budget is the token bucket of the engine's client: a queue of requests, served so many a second. Calls that are skipped take their part of it.
type budget struct {
	qps, burst float64
	// tokens are below zero when requests wait.
	tokens float64
	at     time.Duration
	// pollers are the machines whose calls are skipped, and polls what they ask for in a second when nothing waits.
	pollers, polls float64
	waited         time.Duration
}

func newBudget(b Budget) budget {
	return budget{qps: b.QPS, burst: float64(max(b.Burst, 1)), tokens: float64(max(b.Burst, 1))}
}

// backlog is how many seconds a request waits now.
func (b *budget) backlog() float64 { return max(0, -b.tokens) / b.qps }

// refill brings the bucket up to date. Whoever is polled is asked again some time after the last answer, so that polls become fewer as they wait.
func (b *budget) refill(now time.Duration) {
	rate := b.qps
	if b.pollers > 0 && b.polls > 0 {
		rate -= b.pollers / (b.pollers/b.polls + b.backlog())
	}
	b.tokens = min(b.burst, b.tokens+rate*(now-b.at).Seconds())
	b.at = now
}

// take takes one request's share, and returns how long the request has to wait for it.
func (b *budget) take(now time.Duration) time.Duration {
	if b.qps <= 0 {
		return 0
	}
	b.refill(now)
	b.tokens--
	wait := time.Duration(b.backlog() * float64(time.Second))
	b.waited += wait
	return wait
}

// poll adds machines to those whose calls are skipped, one call in each interval, or takes them away.
func (b *budget) poll(now time.Duration, machines int, interval time.Duration) {
	if b.qps <= 0 {
		return
	}
	b.refill(now)
	b.pollers = max(0, b.pollers+float64(machines))
	b.polls = max(0, b.polls+float64(machines)/interval.Seconds())
}
