package mirror

import (
	"context"
	"fmt"
	"os"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// needReceiver is the hint for a path that should be that of a receiver.
const needReceiver = "name the manifest of the receiver, its mirror or the last bundle for it"

// receiverAt returns the receiver with the manifest, bundle or mirror at path.
func receiverAt(ctx context.Context, path string, records store.Records, warn func(error)) (*bundle.Receiver, error) {
	if cachedir.IsCache(path) {
		err := fmt.Errorf("%s is a plugin cache, which has no archives that a bundle could leave out", path)
		return nil, sources.WithHint(err, "name the mirror that receives the bundle, or its manifest")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := checkReceiver(path, needReceiver); err != nil {
			return nil, err
		}
	}
	return bundle.ReceiverAt(ctx, path, records, warn)
}

// skipsFor returns what skips packages that the receiver has. The receiver may be nil.
func skipsFor(r *bundle.Receiver) job.Skipper {
	if r == nil {
		return nil
	}
	return func(ctx context.Context, from sources.Source, s installer.Selected) bool {
		var locks [][]sources.Hash
		for _, w := range s.Wants {
			locks = append(locks, w.Locked.Hashes)
		}
		return r.Skips(ctx, from, s.ID, locks)
	}
}

// tellReceived prints the totals of a dry run. The receiver may be nil.
func tellReceived(out *report.Output, r *bundle.Receiver, sum report.FillSum, payload []bundle.Payload) {
	out.Payload(payload, bundle.Added)
	switch n := r.Skipped(); {
	case !sum.Empty() && n > 0:
		out.Conclude("%s%s, for a mirror that has %s already", sum.Text(out), report.PayloadText(payload), ui.Count(n, "package"))
	case !sum.Empty():
		out.Conclude("%s%s", sum.Text(out), report.PayloadText(payload))
	case n > 0:
		out.Conclude("The receiver has everything already")
	}
}
