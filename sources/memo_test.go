package sources_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A Memo with a limit asks again for what it has forgotten, and only for that.
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

// A Memo with a time limit asks again for what is older.
func TestMemoForgetsOldAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memo := sources.Memo[string, int]{For: 10 * time.Second}
		asked := 0
		for _, pause := range []time.Duration{0, 9 * time.Second, 2 * time.Second, time.Second} {
			time.Sleep(pause)
			got, err := memo.Get(t.Context(), "a", func() (int, error) {
				asked++
				return asked, nil
			})
			sourcetest.Check(t, err)
			sourcetest.Equal(t, got, asked, "answer")
		}
		sourcetest.Equal(t, asked, 2, "asked")
	})
}
