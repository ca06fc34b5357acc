package line

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// units are the units of sizes, by suffix.
var units = map[string]float64{
	"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40,
}

// ParseSize parses a size such as 20G, 1.5GB or 512MiB. It refuses a number without a unit:
// few people mean bytes.
func ParseSize(s string) (int64, error) {
	upper := strings.ToUpper(s)
	number := strings.TrimRight(upper, "KMGTIB")
	unit, ok := units[strings.TrimSuffix(upper[len(number):], "B")]
	value, err := strconv.ParseFloat(number, 64)
	if size := value * unit; ok && number != upper && err == nil && size >= 1 && size < math.MaxInt64 {
		return int64(size), nil
	}
	return 0, sources.WithHint(errors.New("not a size"), "write a number greater than 0 and a unit, as in 500M or 20G")
}
