package builder_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// Every wait ends when its context does, even while another goroutine is busy.
func TestWaitsEndWithTheirContext(t *testing.T) {
	d := newDepot(t, widget+"/1.0.0/linux_amd64")
	id := parseID(t, widget+"/1.0.0/linux_amd64")
	dir := t.TempDir()
	b := open(t, dir, builder.Options{})
	fetching, finish := make(chan struct{}), make(chan struct{})
	slow := d.delivery(id)
	fetch := slow.Fetch
	slow.Fetch = func(ctx context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
		close(fetching)
		<-finish
		return fetch(ctx, stage)
	}
	done := make(chan error, 1)
	go func() {
		_, err := sourcetest.Put(context.Background(), b, id, slow)
		done <- err
	}()
	<-fetching
	waits := func(all map[string]func(context.Context) error) {
		for name, wait := range all {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			sourcetest.ErrorIs(t, wait(ctx), context.DeadlineExceeded, name)
			cancel()
		}
	}
	waits(map[string]func(context.Context) error{
		"put": func(ctx context.Context) error { _, err := sourcetest.Put(ctx, b, id, d.delivery(id)); return err },
	})
	index := func(ctx context.Context) error { _, _, err := b.Index(ctx, false, false); return err }
	prune := func(ctx context.Context) error { _, err := b.Prune(ctx, &builder.Plan{}); return err }
	must(t, errors.Join(index(t.Context()), prune(t.Context()))) // these don't wait for a download
	altered := builder.Alter(t, b)
	must(t, os.WriteFile(filepath.Join(dir, ".larder", "unsettled"), nil, 0o644)) // else there is nothing to prune
	waits(map[string]func(context.Context) error{"index": index, "prune": prune})
	altered()
	close(finish)
	must(t, errors.Join(<-done, b.Finish(t.Context()), b.Close()))
}

// Several users may write to a mirror. None loses what others have proved, and none believes it.
func TestUsersKeepTheirRecords(t *testing.T) {
	ids := []string{widget + "/1.0.0/linux_amd64", widget + "/2.0.0/linux_amd64"}
	d, dir := newDepot(t, ids...), t.TempDir()
	first, second, third := t.TempDir(), t.TempDir(), t.TempDir()
	records := func(user string) store.Records { return store.Records{Dir: user, Key: seal.UserKey(user)} }
	d.sync(dir, builder.Options{Records: records(first)}, ids[0])
	for _, k := range []string{second, third, second} {
		d.sync(dir, builder.Options{Records: records(k)}, ids[1])
	}
	for name, c := range map[string]struct {
		user string
		id   string
		want sources.Verdict
	}{
		"first, own": {first, ids[0], sources.SelfSigned}, "second, own": {second, ids[1], sources.SelfSigned},
		"third, that of the second": {third, ids[1], sources.MirrorEvidence}, // it accepted the package, and cannot know where the key was listed
		"second, that of the first": {second, ids[0], sources.Unverified},
	} {
		b := open(t, dir, builder.Options{Records: records(c.user), ReadOnly: true})
		s, err := b.Recall(parseID(t, c.id))
		sourcetest.Expect(t, s.Report.Verdict == c.want && (err == nil) == (c.want > sources.Unverified), "%s: got %q, %v", name, s.Report.Verdict, err)
	}
}

// What a mirror says about its packages changes nothing that the user knows about them, whatever evidence it has.
func TestMirrorsTeachOnlyWhatIsProved(t *testing.T) {
	known, unknown := widget+"/1.0.0/linux_amd64", widget+"/2.0.0/linux_amd64"
	user, somebody := t.TempDir(), t.TempDir()
	records := func(user string) store.Records { return store.Records{Dir: user, Key: seal.UserKey(user)} }
	synced(t, builder.Options{Records: records(user)}, known)
	want := sourcetest.Must(store.NewKnown(records(user).Known()).Of(parseID(t, known)))(t)
	other, hostile := newDepot(t), t.TempDir()
	other.stockWith(another, known, unknown)
	other.sync(hostile, builder.Options{Records: records(somebody)}, known, unknown)
	for range 2 {
		b := open(t, hostile, builder.Options{Records: records(user), ReadOnly: true})
		v := sourcetest.Must(b.Verify(t.Context(), nil))(t)
		sourcetest.Expect(t, len(v.Sound) == 2, "sound are %v, found %v", v.Sound, v.Findings)
		must(t, b.Close())
	}
	got, err := store.NewKnown(records(user).Known()).Of(parseID(t, known))
	sourcetest.Expect(t, err == nil && got.H1 == want.H1 && got.ZH == want.ZH, "known is %+v, %v, and was %+v", got, err, want)
	_, err = store.NewKnown(records(user).Known()).Of(parseID(t, unknown))
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
}
