package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/fareway/fareway/modules/internal/human"
)

// style is how a text stands out. What it means is also in the text itself: there are terminals without colors.
type style string

const (
	plain    style = ""
	bold     style = "1"
	dim      style = "2"
	reversed style = "7"
	bad      style = "1;31"
	warning  style = "33"
	good     style = "32"
)

func (s style) paint(text string) string {
	if s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// cut is a text in at most so many columns.
func cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(text, width, "~")
}

// fill is a text in exactly so many columns.
func fill(text string, width int, toTheRight bool) string {
	text = cut(text, width)
	room := strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
	if toTheRight {
		return room + text
	}
	return text + room
}

// none stands for what is not known, or is nothing.
const none = "-"

func rate(v *float64) string {
	switch {
	case v == nil:
		return none
	case *v == 0:
		return "0"
	case *v < 9.95:
		return fmt.Sprintf("%.1f", max(*v, 0.1))
	}
	return amount(math.Round(*v))
}

// amount is a number in at most six columns.
func amount(v float64) string {
	switch size := math.Abs(v); {
	case size < 10_000:
		return fmt.Sprintf("%.0f", v)
	case size < 999_500:
		return fmt.Sprintf("%.1fk", v/1e3)
	case size < 999_500_000:
		return fmt.Sprintf("%.1fM", v/1e6)
	}
	return fmt.Sprintf("%.1fG", v/1e9)
}

// seconds is a length of time in at most six columns.
func seconds(v *float64) string {
	switch {
	case v == nil:
		return none
	case *v < 0.0095:
		return fmt.Sprintf("%.1fms", *v*1e3)
	case *v < 0.995:
		return fmt.Sprintf("%.0fms", *v*1e3)
	case *v < 99.5:
		return fmt.Sprintf("%.1fs", *v)
	}
	return span(time.Duration(*v * float64(time.Second)))
}

// credits is an amount of microcents in credits, with as many digits as are worth reading.
func credits(microcents *float64) string {
	if microcents == nil {
		return none
	}
	v := *microcents / 1e6
	switch size := math.Abs(v); {
	case size == 0:
		return "0"
	case size < 0.0001:
		return fmt.Sprintf("%.6f", v)
	case size < 1:
		return fmt.Sprintf("%.4f", v)
	case size < 1000:
		return fmt.Sprintf("%.2f", v)
	case size < 1_000_000:
		return human.Thousands(int64(math.Round(v)))
	}
	return amount(v)
}

// span is a length of time in at most six columns.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 100*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

func size(bytes float64) string {
	switch {
	case bytes <= 0:
		return none
	case bytes < 1<<30:
		return fmt.Sprintf("%.0fMiB", math.Ceil(bytes/(1<<20)))
	}
	return fmt.Sprintf("%.1fGiB", bytes/(1<<30))
}

func percent(share *float64) string {
	switch {
	case share == nil:
		return none
	case *share == 0:
		return "0"
	case *share < 0.095:
		return fmt.Sprintf("%.1f%%", max(100**share, 0.1))
	}
	return fmt.Sprintf("%.0f%%", 100**share)
}
