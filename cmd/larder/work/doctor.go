package work

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/report"
)

// A checkup is the machine that doctor examines, as the root module in the working directory uses it.
type checkup struct {
	*rootModule
}

// A check finds traps of one kind. It changes nothing, and queries no server unless it says so.
type check func(ctx context.Context, c *checkup) []report.Diagnosis

// areas are what doctor examines, in the order of the output, each with its checks. The summary of an area is
// shown if it has no trap.
var areas = []struct {
	name    string
	summary func(ctx context.Context, c *checkup) string
	checks  []check
}{
	{"configuration", configurationSummary, configurationChecks},
	{"mirrors", mirrorsSummary, mirrorChecks},
	{"root module", rootModuleSummary, rootModuleChecks},
	{"plugin cache", cacheSummary, cacheChecks},
	{"engines", enginesSummary, engineChecks},
}

// ExamineMachine reports known traps in the configuration, the mirrors, the cache and the engines of this machine.
func ExamineMachine(ctx context.Context, s *Session) error {
	s.flags.ReadOnly = true
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	c := &checkup{rootModule: m}
	var all []report.Diagnosis
	for _, area := range areas {
		var found []report.Diagnosis
		for _, find := range area.checks {
			found = append(found, find(ctx, c)...)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(found) == 0 {
			found = []report.Diagnosis{{Severity: report.Healthy, Text: area.name + ": " + area.summary(ctx, c)}}
		}
		for _, d := range found {
			d.Area = area.name
			all = append(all, d)
		}
	}
	sum := s.output.Diagnosed(all)
	if sum == (report.Diagnosed{}) {
		s.output.Say("No problem found in configuration, mirrors, root module, plugin cache and engines")
		return nil
	}
	return report.FoundError{Err: errors.New(sum.Text())}
}
