package sources_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestMemoForgetsTheOldestAnswer checks that a Memo with a limit drops only its
// oldest answers.
func TestMemoForgetsTheOldestAnswer(t *testing.T) {
	memo := sources.Memo[string, int]{Max: 2}
	asked := map[string]int{}
	for _, key := range []string{"a", "b", "a", "c", "c", "b", "a"} {
		_, err := memo.Get(t.Context(), key, func() (int, error) {
			asked[key]++
			return 0, nil
		})
		sourcetest.Check(t, err)
	}
	for key, want := range map[string]int{"a": 2, "b": 1, "c": 1} {
		sourcetest.Expect(t, asked[key] == want, "%s was asked %d times, not %d", key, asked[key], want)
	}
}
