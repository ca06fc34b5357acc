package install

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// Verify verifies the installed packages of root modules, which it hashes, whatever is recorded. It
// returns a [report.FoundError] if it finds a problem, and another error if the verification itself fails.
func Verify(ctx context.Context, s *site.Site, roots []string) error {
	s.Flags.ReadOnly, s.Flags.Paranoid = true, true
	v := &job.Verifying{Site: s, Refused: map[string]error{}}
	if err := job.TakeRoots(v.Site, roots); err != nil {
		return err
	}
	failed := v.Each(ctx, v.At)
	told, several := errors.AsType[*report.ToldError](failed)
	if failed != nil && !several {
		return failed
	}
	hint := v.Hint()
	var refused []error
	for _, text := range slices.Sorted(maps.Keys(v.Refused)) {
		refused = append(refused, v.Refused[text])
	}
	refusal, all := errors.Join(append(refused, v.UnusedKeys())...), slices.Concat(v.Unfit, v.Sound)
	distrusted, hints, accepted := v.TrustFindings(refusal, all, func(s sources.Stored) string { return s.Dir }, v.WorkDir)
	v.Sum.Problems += distrusted
	v.Output.CheckedInDetail(report.CheckedOf(accepted))
	v.Output.Summary(v.Sum)
	switch in := "in " + v.Sum.Text(v.Output); {
	case several:
		v.Output.Say("%s %s; %s failed", ui.Count(v.Sum.Problems, "problem"), in, ui.Count(told.Failed, "root module"))
		return failed
	case v.Sum.Problems == 0:
		v.Output.Say("No problem %s", in)
		return nil
	default:
		return report.Found(v.Sum.Problems, "problem", in, slices.Insert(hints, 0, hint)...)
	}
}
