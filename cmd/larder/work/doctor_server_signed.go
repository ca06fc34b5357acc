package work

import (
	"context"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/probe"
	"github.com/larder-cli/larder/sources/trust"
)

// examineSigned verifies the signed checksums that a server sent, by the settings of the run, and adds the result
// to the step that fetched them.
func (m *rootModule) examineSigned(ctx context.Context, s *report.Server, pkg sources.Package) {
	i := slices.IndexFunc(s.Steps, func(s report.Step) bool { return s.Step == probe.Checksums || s.Step == probe.Evidence })
	if pkg.Signed == nil || i < 0 || s.Steps[i].Severity == report.Untried {
		return
	}
	verified, err := m.verifySigned(ctx, pkg)
	step := &s.Steps[i]
	if err == nil {
		if verified.Verdict > sources.Unverified {
			step.Found += ": " + report.VerifiedAs(verified.Report)
		}
		return
	}
	why := "larder, terraform and tofu refuse the package"
	if pkg.Kind != sources.FromRegistry {
		why = "larder refuses the package; terraform and tofu don't read this evidence"
	}
	step.Severity = report.Broken
	step.Findings = append(step.Findings, report.Diagnosis{
		Severity: report.Broken, Area: step.Step, Trap: "signature", Text: sources.Text(err), Why: why, Fix: strings.Join(sources.Hints(err), "; "),
	})
}

// verifySigned verifies the signed checksums of a package that was not downloaded, as an installation does.
func (m *rootModule) verifySigned(ctx context.Context, pkg sources.Package) (trust.Verified, error) {
	if pkg.Kind == sources.FromRegistry {
		return m.judge().VerifyFile(ctx, pkg.ID.Provider, pkg.Signed, pkg.Filename, pkg.Hashes[0])
	}
	for _, hash := range pkg.Hashes {
		if hash.Scheme() == sources.ZH {
			return m.judge().Verify(ctx, pkg.ID.Provider, pkg.Signed, hash)
		}
	}
	return trust.Verified{}, nil // only the archive's hash could tell
}
