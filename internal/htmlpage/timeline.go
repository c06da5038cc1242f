package htmlpage

// Timeline is a chart of what happened to each group. The template timeline draws it; ID is unique in
// the page.
type Timeline struct {
	ID, Label string
	Time      []Tick
	Rows      []TimelineRow
}

// TimelineRow is one line of a Timeline.
type TimelineRow struct {
	Name, Note, Label string
	Height            int
	Bars              []TimelineBar
}

// TimelineBar is from X on, Width wide, both in percent of the row; Y and Height are in pixels.
type TimelineBar struct {
	X, Width, Class, Title string
	Y, Height              int
}

// LegendEntry says what a class is drawn for. The template legend draws a list of them.
type LegendEntry struct{ Class, Name string }
