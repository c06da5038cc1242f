package view

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/htmlpage/htmlpagetest"
	"github.com/windlass-dev/windlass/internal/status"
)

func statusPageOf(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var page strings.Builder
	if err := write(&page); err != nil {
		t.Fatal(err)
	}
	if err := htmlpagetest.Check(page.String()); err != nil {
		t.Error(err)
	}
	return page.String()
}

func fullReport() status.Report {
	r := busyReport()
	r.Chain, r.InPlace = heldChain(), markedReport().InPlace
	r.Deletions = []status.Deletion{{Machine: "gone", Group: "md-0", Reason: "DrainingNode", Message: "a Pod", Since: ago(time.Hour)}}
	r.OffSpec = []status.OffSpec{{Machine: "off", Group: "md-0", Message: "its node runs another version"}}
	return r
}

// TestStatusPage compares pages with files in testdata.
func TestStatusPage(t *testing.T) {
	t.Parallel()
	upgrading := status.Report{Namespace: "team-a", Cluster: "prod", Chain: upgradingChain(), Groups: fleetGroups()}
	for name, r := range map[string]status.Report{
		"full": fullReport(), "upgrading": upgrading, "nothing": {Namespace: "team-a", Cluster: "prod"},
	} {
		golden(t, "status-"+name+".html", statusPageOf(t, func(w io.Writer) error { return WriteStatusPage(w, r, statusNow) }))
	}
	fleet := status.Fleet{AsOf: statusNow, Hidden: []string{"Machines of all namespaces"}, Clusters: []status.Overview{
		{Namespace: "team-a", Cluster: "prod", State: status.ChainPaused, NeedsPerson: true, Holds: []status.Hold{{Kind: status.HeldByPause}}},
	}}
	golden(t, "status-fleet.html", statusPageOf(t, func(w io.Writer) error { return WriteFleetPage(w, fleet) }))
}

// poison makes every text hostile.
func poison(v reflect.Value) {
	switch kind := v.Kind(); {
	case kind == reflect.String:
		v.SetString(hostile)
	case kind == reflect.Pointer && !v.IsNil():
		poison(v.Elem())
	case kind == reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case kind == reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				poison(field)
			}
		}
	}
}

// TestStatusPageIsSafe holds that names and messages which others wrote stay text, in every field.
func TestStatusPageIsSafe(t *testing.T) {
	t.Parallel()
	r := fullReport()
	poison(reflect.ValueOf(&r))
	// Without these there is no upgrade, and no machine under update.
	r.Chain.State, r.Updates[0].State = status.ChainHeld, status.Failed
	for i := range r.InPlace.Machines {
		r.InPlace.Machines[i].State = status.UpgradeFailed
	}
	fleet := status.Fleet{AsOf: statusNow, Hidden: []string{hostile}, Clusters: []status.Overview{{Holds: []status.Hold{{}}}}}
	poison(reflect.ValueOf(&fleet))
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error { return WriteStatusPage(w, r, statusNow) },
		func(w io.Writer) error { return WriteFleetPage(w, fleet) },
	} {
		page := statusPageOf(t, write)
		if strings.ContainsAny(page, "\x1b\u202e") || strings.Contains(page, "<script") ||
			strings.Contains(page, "http:") || strings.Contains(page, "https:") || !strings.Contains(page, "&lt;script") {
			t.Error("the page has what it must not have, or lacks the text")
		}
	}
}

// TestStatusPageIsBounded holds that the page of a large Cluster stays small, and says what it leaves out.
func TestStatusPageIsBounded(t *testing.T) {
	t.Parallel()
	r := fullReport()
	update, group := r.Updates[3], r.Groups[1]
	for i := range 30000 {
		update.Machine = fmt.Sprintf("w-%d-%s", i, strings.Repeat("x", 50))
		r.Updates = append(r.Updates, update)
	}
	for i := range 2000 {
		group.Name = fmt.Sprintf("md-%d", i)
		r.Groups = append(r.Groups, group)
	}
	page := statusPageOf(t, func(w io.Writer) error { return WriteStatusPage(w, r, statusNow) })
	if len(page) > 1<<20 || !strings.Contains(page, "more machines in the report as JSON") || !strings.Contains(page, "prod-md-0-e") {
		t.Errorf("the page has %d bytes, or does not say what it leaves out", len(page))
	}
}
