package site

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A dripping source never completes an answer.
type dripping struct{ sources.Source }

func (dripping) String() string { return "registry example.test" }

func (dripping) Versions(ctx context.Context, _ sources.Provider) (sources.Listing, error) {
	<-ctx.Done()
	return sources.Listing{}, ctx.Err()
}

// A question doesn't wait long for a server, and says so. The answer is recorded, so that it isn't waited for again.
func TestQuestionsWaitBriefly(t *testing.T) {
	p, err := sources.ParseProvider("example.test/acme/widget", sources.Terraform)
	sourcetest.Check(t, err)
	synctest.Test(t, func(t *testing.T) {
		source := sources.NewMulti([]sources.Method{{Source: Hasty{dripping{}}}})
		start := time.Now()
		for range 2 {
			_, err := source.Versions(t.Context(), p)
			sourcetest.Expect(t, errors.Is(err, fetch.ErrStalled) && strings.Contains(err.Error(), "registry example.test: "), "got %v", err)
		}
		sourcetest.Equal(t, time.Since(start), answerTime, "waited")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Hasty{dripping{}}.Versions(ctx, p)
		sourcetest.Expect(t, errors.Is(err, context.Canceled) && !errors.Is(err, fetch.ErrStalled), "interrupted: %v", err)
	})
}
