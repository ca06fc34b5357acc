package publish_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// These tests are about a real store to which several programs push.

// prune removes everything that the mirror doesn't have.
func prune(sources.PackageID) bool { return true }

// A place is a prefix in the store.
type place struct {
	*testing.T
	store  *sourcetest.S3
	prefix string
}

// interrupted calls do before the nth request, from 1. After that, a program that was killed sends no more.
type interrupted struct {
	http.RoundTripper
	n      int64
	do     func()
	sent   atomic.Int64
	killed atomic.Bool
}

func (i *interrupted) RoundTrip(req *http.Request) (*http.Response, error) {
	if i.sent.Add(1) == i.n {
		i.do()
	}
	if i.killed.Load() { // whatever it still tries has no effect, and isn't tried again
		return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: req}, nil
	}
	return i.RoundTripper.RoundTrip(req)
}

// target returns the place for a program whose nth request is interrupted, and the requests that it has sent. 0 means never.
func (p place) target(n int64, do func()) (*publish.Bucket, *interrupted) {
	p.Helper()
	over := p.store.Transport()
	p.Cleanup(over.CloseIdleConnections)
	i := &interrupted{RoundTripper: over, do: do}
	b := p.bucket(i)
	i.sent.Store(0)
	i.n = n
	return publish.NewBucket(b), i
}

func (p place) bucket(over http.RoundTripper) *bucket.Bucket {
	p.Helper()
	return p.bucketOf(fetch.New(fetch.Options{Transport: over}))
}

func (p place) bucketOf(client *fetch.Client) *bucket.Bucket {
	p.Helper()
	b := sourcetest.Must(bucket.Open(p.Context(), bucket.Location{Bucket: "plugins", Prefix: p.prefix}, bucket.Options{
		Endpoint: p.store.Endpoint, Client: client,
		Env: bucket.Environment{AccessKeyID: p.store.AccessKeyID, SecretAccessKey: p.store.SecretAccessKey, NoMetadata: true},
	}))(p)
	return b
}

// write writes an object in the directory of the provider.
func (p place) write(name string, data []byte) {
	p.Helper()
	sourcetest.Must(p.bucket(p.store.Transport()).Put(p.Context(), filepath.Join(provider, name), data, bucket.WriteOptions{}))(p)
}

func (p place) writeDocument(name string, doc fsmirror.Document) {
	p.Helper()
	text := sourcetest.Must(json.Marshal(doc))(p)
	p.write(name, text)
}

// push pushes releases.
func (p place) push(opts publish.Options, releases ...publish.Release) publish.Result {
	p.Helper()
	b, _ := p.target(0, nil)
	return sourcetest.Must(publish.Push(p.Context(), b, releases, opts))(p)
}

// killed pushes releases by a program that is killed before its nth request, and whose lease then expires. It returns how many it has sent.
func (p place) killed(n int64, opts publish.Options, releases ...publish.Release) int64 {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	var requests *interrupted
	to, requests := p.target(n, func() {
		requests.killed.Store(true)
		cancel()
	})
	_, _ = publish.Push(ctx, to, releases, opts)
	check(p, os.RemoveAll(filepath.Join(p.store.Dir, "plugins", p.prefix, ".larder", "leases"))) // as if it had expired
	return requests.sent.Load()
}

// beside pushes two releases by two programs. The second one begins before the nth request of the first. It returns their errors, and
// how many requests the first has sent.
func (p place) beside(n int64, first, second publish.Release, one publish.Options) (sent int64, err, other error) {
	p.Helper()
	var both sync.WaitGroup
	to, requests := p.target(n, func() {
		to, _ := p.target(0, nil)
		waits := make(chan struct{})
		wait := sync.OnceFunc(func() { close(waits) })
		both.Go(func() {
			defer wait()
			_, other = publish.Push(context.Background(), to, []publish.Release{second}, publish.Options{Wait: func(sources.Provider, string) { wait() }})
		})
		<-waits
	})
	_, err = publish.Push(p.Context(), to, []publish.Release{first}, one)
	both.Wait()
	return requests.sent.Load(), err, other
}

// everyMoment calls test with some of the requests of a program, and with none. Each test has an empty place.
func everyMoment(t *testing.T, test func(p place, n int64) (sent int64)) {
	t.Helper()
	s := sourcetest.NewS3(t, true, "plugins")
	try := func(n int64) (sent int64) {
		t.Run(fmt.Sprint(n), func(t *testing.T) { sent = test(place{t, s, fmt.Sprint(n)}, n) })
		return sent
	}
	for _, n := range sourcetest.Sample(t, int(try(math.MaxInt64)), 6) {
		try(int64(n))
	}
}

// inOnePlace returns a place in a store of its own.
func inOnePlace(t *testing.T) place { return place{t, sourcetest.NewS3(t, true, "plugins"), "p"} }

// widget is the directory of the provider in the place.
func (p place) widget() string { return filepath.Join(p.store.Dir, "plugins", p.prefix, provider) }

// document returns a document about the provider.
func (p place) document(name string) (doc fsmirror.Document) {
	p.Helper()
	data, err := os.ReadFile(filepath.Join(p.widget(), name))
	if !errors.Is(err, os.ErrNotExist) {
		check(p, err)
		check(p, json.Unmarshal(data, &doc))
	}
	return doc
}

// problems returns the archives that documents name and that aren't there with their hashes, and the differences between the index and
// the documents.
func (p place) problems() (all []string) {
	p.Helper()
	index := p.document("index.json")
	entries, err := os.ReadDir(p.widget())
	if !errors.Is(err, os.ErrNotExist) {
		check(p, err)
	}
	listed := maps.Clone(index.Versions)
	for _, entry := range entries {
		v, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok || v == "index" {
			continue
		}
		doc := p.document(entry.Name())
		if _, ok := listed[v]; ok != (len(doc.Archives) > 0) {
			all = append(all, fmt.Sprintf(unlisted+" %t: version %s with %d archives", ok, v, len(doc.Archives)))
		}
		delete(listed, v)
		for platform, a := range doc.Archives {
			data, err := os.ReadFile(filepath.Join(p.widget(), a.URL))
			if err != nil {
				all = append(all, err.Error())
			} else if is := sources.ZipHash(sha256.Sum256(data)); !slices.Contains(a.Hashes, is) {
				all = append(all, fmt.Sprintf("%s %s has %s instead of %s", v, platform, is, a.Hashes))
			}
		}
	}
	for v := range listed {
		all = append(all, "the index has "+v+", which has no document")
	}
	return all
}

// unlisted begins the problem that a version is in the index or has archives, and not both.
const unlisted = "in the index"

// whole checks that readers get whole versions. Those that a killed program has left need not be listed yet.
func (p place) whole() {
	p.Helper()
	problems := slices.DeleteFunc(p.problems(), func(text string) bool { return strings.HasPrefix(text, unlisted+" false") })
	sourcetest.EqualSlices(p, problems, nil, "problems")
}

// sound checks that there are no problems.
func (p place) sound() {
	p.Helper()
	sourcetest.EqualSlices(p, p.problems(), nil, "problems")
}

// platforms returns VERSION PLATFORM of each package in the place.
func (p place) platforms() (all []string) {
	for v := range p.document("index.json").Versions {
		for platform := range p.document(v + ".json").Archives {
			all = append(all, v+" "+platform)
		}
	}
	slices.Sort(all)
	return all
}

func (p place) archives() []string {
	return sourcetest.Must(filepath.Glob(filepath.Join(p.widget(), "archives", "*", "*")))(p)
}

// age makes all objects older.
func (p place) age(by time.Duration) {
	check(p, filepath.WalkDir(p.widget(), func(path string, _ os.DirEntry, err error) error {
		then := time.Now().Add(-by)
		return errors.Join(err, os.Chtimes(path, then, then))
	}))
}

// Two programs push other contents of the same package. One of them fails, and doesn't touch the archive of the other one.
func TestPushersOfOtherContents(t *testing.T) {
	t.Parallel()
	a, b := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "1.0.0", 1000, "linux_amd64")
	everyMoment(t, func(p place, n int64) int64 {
		sent, err, second := p.beside(n, a, b, publish.Options{})
		p.sound()
		if sent < n {
			check(p, err)
			return sent
		}
		sourcetest.Expect(p, (err == nil) != (second == nil), "the errors are %v and %v", err, second)
		differ := differs(err, b, a) || differs(second, a, b)
		sourcetest.Expect(p, differ, "the errors are %v and %v", err, second)

		p.push(publish.Options{Replace: true}, b)
		p.push(publish.Options{Replace: true}, a)
		p.sound()
		sourcetest.Equal(p, p.document("1.0.0.json").Archives["linux_amd64"].Hashes[0], a.Packages[0].ZH)
		sourcetest.Equal(p, len(p.archives()), 2)
		return sent
	})
}

// differs reports whether an error says that the package of the place differs from that of the mirror.
func differs(err error, theirs, ours publish.Release) bool {
	want := fmt.Sprintf("different archive, %s; the mirror has %s", theirs.Packages[0].ZH, ours.Packages[0].ZH)
	return err != nil && strings.Contains(err.Error(), want)
}

// A --replace that was killed leaves the old package or the new one, and both pushers can continue.
func TestInterruptedReplace(t *testing.T) {
	t.Parallel()
	old, changed := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "1.0.0", 1100, "linux_amd64")
	everyMoment(t, func(p place, n int64) int64 {
		p.push(publish.Options{}, old)
		sent := p.killed(n, publish.Options{Replace: true}, changed)
		p.whole()
		p.push(publish.Options{Replace: true}, old)
		p.sound()
		sourcetest.Equal(p, p.document("1.0.0.json").Archives["linux_amd64"].Hashes[0], old.Packages[0].ZH)
		p.push(publish.Options{Replace: true}, changed)
		p.sound()
		sourcetest.Equal(p, p.document("1.0.0.json").Archives["linux_amd64"].Hashes[0], changed.Packages[0].ZH)
		return sent
	})
}

// While one program removes a version, another one adds a platform to it, or the same package again.
func TestPruneWhileAdding(t *testing.T) {
	t.Parallel()
	old, kept := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "2.0.0", 1000, "linux_amd64")
	other := released(t, provider, "1.0.0", 1000, "darwin_arm64")
	other.Signed = signed("https://example.com/1")
	for name, second := range map[string]publish.Release{"other platform": other, "same package": old} {
		t.Run(name, func(t *testing.T) {
			everyMoment(t, func(p place, n int64) int64 {
				p.push(publish.Options{}, old, kept)
				sent, err, also := p.beside(n, kept, second, publish.Options{Prune: prune})
				check(p, errors.Join(err, also))
				p.sound()
				if second.Signed != nil && slices.Contains(p.platforms(), "1.0.0 darwin_arm64") {
					at := filepath.Join(p.widget(), p.document("1.0.0.json").Larder.Evidence.URL, "origin")
					sourcetest.Equal(p, string(sourcetest.ReadFile(p, at)), "https://example.com/1\n")
				}
				return sent
			})
		})
	}
}

// The next push continues one that was killed, and the next --prune a killed one. A lease that was left behind expires.
func TestInterruptions(t *testing.T) {
	t.Parallel()
	old, kept := released(t, provider, "1.0.0", 1000, "darwin_arm64", "linux_amd64"), released(t, provider, "2.0.0", 1000, "linux_amd64")
	everyMoment(t, func(p place, n int64) int64 {
		sent := p.killed(n, publish.Options{}, old, kept)
		p.whole()
		p.push(publish.Options{}, old, kept)
		p.sound()
		sourcetest.Equal(p, len(p.platforms()), 3)
		return sent
	})
	everyMoment(t, func(p place, n int64) int64 {
		p.push(publish.Options{}, old, kept)
		p.age(48 * time.Hour)
		sent := p.killed(n, publish.Options{Prune: prune}, kept)
		p.whole()
		p.push(publish.Options{Prune: prune}, kept)
		p.sound()
		sourcetest.EqualSlices(p, p.platforms(), []string{"2.0.0 linux_amd64"})
		p.age(48 * time.Hour)
		p.push(publish.Options{Prune: prune}, kept)
		p.sound()
		sourcetest.Equal(p, len(p.archives()), 1)
		return sent
	})
}

// An archive that has changed since it was hashed isn't uploaded, whatever its size.
func TestArchiveChangesBeforeItIsUploaded(t *testing.T) {
	for _, size := range []int{1 << 20, 17 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := inOnePlace(t)
			r := released(t, provider, "1.0.0", size, "linux_amd64")
			original := sourcetest.ReadFile(t, r.Packages[0].Path)
			other := randomBytes(len(original))
			for _, changed := range [][]byte{other, other[1:], append(other, 1)} {
				check(t, os.WriteFile(r.Packages[0].Path, changed, 0o644))
				to, _ := p.target(0, nil)
				_, err := publish.Push(t.Context(), to, []publish.Release{r}, publish.Options{})
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "not uploaded: the "), "got %v", err)
			}
			sourcetest.EqualSlices(t, p.archives(), nil)
			check(t, os.WriteFile(r.Packages[0].Path, original, 0o644))
			p.push(publish.Options{}, r)
			p.sound()
		})
	}
}

// An archive with other contents than its name states is damaged, and is uploaded again.
func TestDamagedArchive(t *testing.T) {
	p := inOnePlace(t)
	r := released(t, provider, "1.0.0", 1000, "linux_amd64")
	p.push(publish.Options{}, r)
	name := sourcetest.Must(filepath.Rel(p.widget(), p.archives()[0]))(t)
	p.write(name, []byte("damaged"))
	sourcetest.EqualSlices(t, changes(p.push(publish.Options{}, r)), []string{"1.0.0 linux_amd64 added"})
	p.sound()
	sourcetest.EqualSlices(t, changes(p.push(publish.Options{}, r)), nil)
}

// A document that another program has written is an error, and stays. Nothing is stored for its version, and nothing of the
// provider is removed.
func TestOtherDocuments(t *testing.T) {
	r, old := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "2.0.0", 1000, "linux_amd64")
	pkg := &r.Packages[0]
	h1 := sources.Hash("h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	zero := strings.Repeat("0", 64)
	store, own := inOnePlace(t).store, "archives/"+strings.TrimPrefix(string(pkg.ZH), "zh:")+"/"+pkg.ID.Filename()
	for i, tt := range []struct {
		platform, url string
		hashes        []sources.Hash
	}{
		{"linux_amd64", pkg.ID.Filename(), []sources.Hash{pkg.ZH}},
		{"linux_amd64", "https://example.com/" + own, []sources.Hash{pkg.ZH}},
		{"linux_amd64", "../widget/" + own, []sources.Hash{pkg.ZH}},
		{"linux_amd64", "./" + own, []sources.Hash{pkg.ZH}},
		{"linux_amd64", own + "?versionId=x", []sources.Hash{pkg.ZH}},
		{"linux_amd64", "archives/" + zero + "/" + pkg.ID.Filename(), []sources.Hash{pkg.ZH}},
		{"linux_amd64", own, []sources.Hash{h1}},
		{"linux_amd64", own, nil},
		{"linux_amd64", "archives/../x/" + pkg.ID.Filename(), []sources.Hash{"zh:../x"}},
		{"linux_amd64", "2.0.0.json", []sources.Hash{pkg.ZH}},
		{"darwin_arm64", own, []sources.Hash{pkg.ZH}},
		{"Linux_AMD64", own, []sources.Hash{pkg.ZH}},
	} {
		p := place{t, store, fmt.Sprint(i)}
		p.push(publish.Options{}, old)
		doc := fsmirror.Document{Archives: map[string]fsmirror.Archive{tt.platform: {Hashes: tt.hashes, URL: tt.url}}}
		p.writeDocument("1.0.0.json", doc)
		p.age(48 * time.Hour)
		to, _ := p.target(0, nil)
		result, err := publish.Push(t.Context(), to, []publish.Release{r}, publish.Options{Prune: prune, Replace: true})
		want := fmt.Sprintf("/1.0.0.json was written by another program: it names %q for %s", tt.url, tt.platform)
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "%s: got %v", tt.url, err)
		sourcetest.EqualSlices(t, changes(result), nil)
		sourcetest.Equal(t, len(p.archives()), 1)
		sourcetest.Equal(t, p.document("1.0.0.json").Archives[tt.platform].URL, tt.url)
	}
}

// Prune removes only archives with names as Larder's. Other objects stay.
func TestPruneKeepsOtherObjects(t *testing.T) {
	p := inOnePlace(t)
	r, old := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "2.0.0", 1000, "linux_amd64")
	p.push(publish.Options{}, r, old)
	others := []string{
		"../gadget/terraform-provider-gadget_1.0.0_openbsd_amd64.zip", "notes/terraform-provider-widget_1.0.0_netbsd_amd64.zip",
		"notes.zip", "archives/notes.zip", "terraform-provider-widget_1.0.0_linux_amd64.zip", "3.0.0.json",
	}
	for _, name := range others {
		p.write(name, []byte(`{"notes": "not a document of a network mirror"}`))
	}
	p.age(48 * time.Hour)
	sourcetest.EqualSlices(t, changes(p.push(publish.Options{Prune: prune}, r)), []string{"2.0.0 linux_amd64 removed"})
	for _, name := range others {
		sourcetest.ReadFile(t, filepath.Join(p.widget(), name))
	}
	sourcetest.EqualSlices(t, p.platforms(), []string{"1.0.0 linux_amd64"})
}

// The index of a provider without versions is empty. If there never was one, none is written.
func TestPruneOfAllVersions(t *testing.T) {
	p := inOnePlace(t)
	r := released(t, provider, "1.0.0", 1000, "linux_amd64")
	nothing := publish.Release{Release: r.Release}
	p.push(publish.Options{Prune: prune}, nothing)
	_, err := os.Lstat(p.widget())
	sourcetest.ErrorIs(t, err, os.ErrNotExist, "the directory of the provider")
	p.push(publish.Options{}, r)
	p.push(publish.Options{Prune: prune}, nothing)
	sourcetest.ReadFile(t, filepath.Join(p.widget(), "index.json"))
	sourcetest.EqualSlices(t, p.platforms(), nil)
	p.sound()
}

// After an error, nothing is removed.
func TestPruneAfterAnError(t *testing.T) {
	old, r := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "2.0.0", 1000, "linux_amd64")
	for _, missing := range []bool{false, true} {
		p := inOnePlace(t)
		p.push(publish.Options{}, old)
		bad := r
		if missing {
			bad.Packages = slices.Clone(r.Packages)
			bad.Packages[0].Path += ".missing"
		} else { // its document can't be read
			p.write("2.0.0.json", []byte("{"))
		}
		to, _ := p.target(0, nil)
		result, err := publish.Push(t.Context(), to, []publish.Release{bad}, publish.Options{Prune: prune})
		sourcetest.Expect(t, err != nil, "no error")
		sourcetest.EqualSlices(t, changes(result), nil)
		sourcetest.Equal(t, len(p.document("1.0.0.json").Archives), 1)
	}
}

// An archive that no document names is removed a day after it was uploaded and after the document was written: a pusher may be going to
// name it, and readers may be downloading it.
func TestPruneRemovesOldRests(t *testing.T) {
	p := inOnePlace(t)
	old, changed := released(t, provider, "1.0.0", 1000, "linux_amd64"), released(t, provider, "1.0.0", 1000, "linux_amd64")
	p.push(publish.Options{}, old)
	p.age(25 * time.Hour)
	p.push(publish.Options{Replace: true}, changed)
	p.push(publish.Options{Prune: prune}, changed)
	sourcetest.Equal(t, len(p.archives()), 2)
	p.age(25 * time.Hour)
	p.push(publish.Options{}, changed)
	sourcetest.Equal(t, len(p.archives()), 2)
	p.push(publish.Options{Prune: prune}, changed)
	sourcetest.Equal(t, len(p.archives()), 1)
	p.sound()
}
