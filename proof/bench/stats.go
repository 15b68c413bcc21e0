package bench

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// median returns the median of samples, or NaN if there are none.
func median(samples []float64) float64 { return quantile(samples, 0.5) }

// quantile returns the smallest sample that a share q of all samples does not exceed.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(samples))
	i := int(math.Ceil(q*float64(len(s)))) - 1
	return s[min(max(i, 0), len(s)-1)]
}

// figure formats a number for people, with about three significant digits and no
// powers of ten.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case a >= 100:
		return grouped(int64(math.Round(x)))
	case x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 0.1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

// grouped formats n with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return sign + strings.Join(append([]string{s}, parts...), ",")
}

// limit formats the number of a target as it was given.
func limit(x float64) string {
	if x >= 1000 {
		return figure(x)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}
