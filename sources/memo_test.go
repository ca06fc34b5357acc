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

// TestMemoForgetsWhatIsTooMuch checks that the recorded answers of a Memo never weigh more than its limit, also after some
// were forgotten for another reason.
func TestMemoForgetsWhatIsTooMuch(t *testing.T) {
	memo := sources.Memo[int, int]{Max: 100, Weigh: func(v int) int { return v }}
	asked := 0
	get := func(key, weight int) {
		_, err := memo.Get(t.Context(), key, func() (int, error) {
			asked++
			return weight, nil
		})
		sourcetest.Check(t, err)
	}
	for key := range 10 {
		get(key, 20)
	}
	for _, key := range []int{9, 8, 7, 6, 5} {
		get(key, 20)
	}
	sourcetest.Expect(t, asked == 10, "asked %d times, not 10: 5 answers have the weight 100", asked)
	memo.Forget(5)
	memo.Forget(5)
	get(10, 20)
	get(6, 20)
	sourcetest.Expect(t, asked == 11, "asked %d times, not 11: a forgotten answer leaves room", asked)
	get(11, 101)
	get(11, 101)
	get(6, 20)
	sourcetest.Expect(t, asked == 14, "asked %d times, not 14: an answer above the limit is not recorded", asked)
}
