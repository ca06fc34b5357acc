package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A situation is everything that a program finds when it starts in a root module: the contents
// of registries and mirrors, the configuration of the machine, and what was locked, cached and
// installed before. It is plain data, so that it can be printed, and created several times.
//
// In its texts {dir} represents the directory that contains everything, {registry} the host and
// port of a registry with service discovery, {mirror} the URL of a network mirror and
// {mirrorhost} its host and port, {oci} an OCI registry with the prefix of the repositories, {platform}
// this machine's platform, and {home} the engine's own registry.
type situation struct {
	Seed     uint64
	Engine   sources.Engine // that it is meant for
	Releases []published
	Edits    []edit // changes to documents of servers
	Trees    []tree // filesystem mirrors, wherever they are

	Files     map[string]string // by path below {dir}; the root module is in work
	Lock      []locked
	LockForm  string   // variant of the lock file: see lockForms
	Installed []placed // below the data directory's providers
	Cached    []placed // below CacheDir
	CacheDir  string   // empty if none is configured
	NoCache   bool     // it is configured, but does not exist

	Token      string // that both servers require; empty if they do not
	Env        []string
	DataDir    string // of the root module, relative to {dir}
	Chdir      bool   // started in {dir}, not in {dir}/work
	Upgrade    bool
	ReadOnly   bool
	PluginDirs []string

	Prior  string   // program that ran before: the engine, or each program itself; empty if none
	Forgot []string // removed since, below {dir}
}

// A published is a published version of a provider.
type published struct {
	Provider, Version string
	Platforms         []string
	Contents          string   // how the package looks: see contents
	Protocols         []string // empty: not stated
	Signing           string   // see signings
	Sums              string   // fault of SHA256SUMS
	Document          string   // fault of the registry's description
	Warning           string
	Stated            bool     // the registry lists the hashes of all platforms
	HiddenBy          []string // servers that do not list it: registry, mirror, oci
	Later             bool     // it is published after the prior run
}

// An edit changes the documents that a server returns.
type edit struct {
	Server       string // registry or mirror
	Path         string // of the URL, with * for any text
	Pattern, New string // a regular expression and its replacement
	Status       int    // or the server returns only this status
	Corrupt      bool   // or one bit of the document is changed
	ContentType  string // in the header; empty if unchanged
}

// A tree is a directory in a filesystem mirror's layout.
type tree struct {
	Path     string // below {dir}
	Packed   []string
	Unpacked []string // HOST/NAMESPACE/TYPE/VERSION/OS_ARCH, with * for any text
	Twist    string   // variant: see twists
}

// A locked is a block in the dependency lock file.
type locked struct {
	Provider, Version, Constraints string
	Hashes                         []string // kinds of hashes: see hashes
	Raw                            string   // further text in the block
}

// A placed is a package in a cache or in an installation.
type placed struct {
	ID  string // HOST/NAMESPACE/TYPE/VERSION/OS_ARCH
	How string // see place
}

// String is the situation in full.
func (s *situation) String() string { return inFull(s) }

// A scene is a situation on disk and on servers.
type scene struct {
	*situation
	ground
	dir string // where programs run, in base
}

func newScene(t *testing.T, s *situation) *scene {
	sc := &scene{situation: s, ground: ground{t, sourcetest.New(t), sourcetest.MemoryDir(t)}}
	sc.dir = filepath.Join(sc.base, "run")
	sc.publishAll(false)
	sc.mkdir("run/work")
	sc.mkdir("run/home")
	for _, tree := range s.Trees {
		sc.plant(tree)
	}
	sc.writeCache()
	for _, p := range s.Installed {
		sc.place(filepath.Join(sc.dir, s.DataDir, "providers"), p)
	}
	for name, text := range s.Files {
		sc.write(filepath.Join(sc.dir, name), sc.fill(text))
	}
	if s.Lock != nil {
		sc.writeLock()
	}
	return sc
}

// publishAll publishes the releases that are published at first, or later.
func (sc *scene) publishAll(later bool) {
	for _, r := range sc.Releases {
		if r.Later == later {
			sc.publish(r)
		}
	}
}

// keep saves the current state under a name.
func (sc *scene) keep(name string) {
	sc.t.Helper()
	sc.must(os.Rename(sc.dir, filepath.Join(sc.base, name)))
}

// restore restores a saved state.
func (sc *scene) restore(name string) {
	sc.t.Helper()
	sc.must(os.RemoveAll(sc.dir))
	sc.must(copyTree(filepath.Join(sc.base, name), sc.dir))
}

// resume restores a saved state for the last time.
func (sc *scene) resume(name string) {
	sc.t.Helper()
	sc.must(errors.Join(os.RemoveAll(sc.dir), os.Rename(filepath.Join(sc.base, name), sc.dir)))
}

// copyTree copies directories, files and symbolic links. The names may be ones that os.CopyFS refuses.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, target))
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
}

// spoil makes the servers return wrong answers from now on, and clears their records.
func (sc *scene) spoil() {
	for name, server := range map[string]*sourcetest.Server{"registry": sc.world.Registry, "mirror": sc.world.Mirror} {
		server.RequireToken(sc.Token)
		server.Mend()
		server.Forget()
		for _, e := range sc.Edits {
			if e.Server == name {
				server.Fault(sc.fault(e))
			}
		}
	}
}

func (sc *scene) fault(e edit) sourcetest.Fault {
	f := sourcetest.Fault{Path: sc.fill(e.Path), Status: e.Status, Corrupt: e.Corrupt, ContentType: e.ContentType}
	if e.Pattern != "" {
		f.Edit = func(b []byte) []byte {
			return regexp.MustCompile(sc.fill(e.Pattern)).ReplaceAll(b, []byte(sc.fill(e.New)))
		}
	}
	return f
}

// fill replaces the words in braces.
func (sc *scene) fill(text string) string {
	return strings.NewReplacer(
		"{dir}", sc.dir,
		"{registry}", sc.world.Registry.Host,
		"{mirror}", sc.world.Mirror.MirrorURL(),
		"{mirrorhost}", sc.world.Mirror.Host,
		"{oci}", sc.oci(),
		"{home}", string(sc.Engine.DefaultHost()),
		"{platform}", runtime.GOOS+"_"+runtime.GOARCH,
	).Replace(text)
}

// oci returns the OCI registry with the prefix of its repositories, if the situation has one.
func (sc *scene) oci() string {
	if !sc.usesOCI() {
		return "" // starting one takes time
	}
	return sc.world.OCI().Host + "/" + sourcetest.OCI
}

func (sc *scene) usesOCI() bool {
	for _, text := range sc.Files {
		if strings.Contains(text, "{oci}") {
			return true
		}
	}
	return false
}

// An entry is a file in an archive, or a directory if its name ends in a slash.
type entry struct {
	name, text string
	mode       os.FileMode
}

// contents returns the entries of r's package for a platform, by the name of the package's
// variant.
func (r published) contents(platform string) []entry {
	typ := typeOf(r.Provider)
	text := r.Provider + " " + r.Version + " " + platform + "\n"
	program := entry{"terraform-provider-" + typ + "_v" + r.Version, text, 0o755}
	license := entry{"LICENSE", "yes\n", 0o644}
	switch r.Contents {
	case "nested":
		return []entry{license, {"docs/a/b.md", "b\n", 0o600}, program}
	case "directories":
		return []entry{{"docs/", "", 0o755}, {"docs/index.md", "i\n", 0o644}, {"empty/", "", 0o755}, program}
	case "old name":
		program.name += "_x5"
		return []entry{program, license}
	case "bare name":
		program.name = "terraform-provider-" + typ
		return []entry{program}
	case "two programs":
		return []entry{program, {"terraform-provider-" + typ + "_v0.0.1", "older\n", 0o755}}
	case "not executable":
		program.mode = 0o644
		return []entry{program, {"terraform-provider-" + typ + "-extra", "e", 0o644}}
	case "no program":
		return []entry{license, {"terraform-provider-" + typ + "-extra", "e", 0o755}}
	case "dots":
		return []entry{{"./LICENSE", "yes\n", 0o644}, program}
	case "dots upwards":
		return []entry{program, {"../LICENSE", "yes\n", 0o644}}
	case "symbolic link":
		return []entry{program, {"link", "LICENSE", 0o777 | os.ModeSymlink}}
	case "twice":
		return []entry{license, license, program}
	case "program below":
		program.name = "bin/" + program.name
		return []entry{program}
	case "empty":
		return nil
	default:
		return []entry{program}
	}
}

// looks are the variants of contents, the ordinary one first.
var looks = []string{
	"", "nested", "directories", "old name", "bare name", "two programs", "not executable", "no program", "program below",
	"empty", "no archive", "deflated", "dots", "dots upwards", "symbolic link", "twice",
}

// oddLooks are the variants of archives that cannot be unpacked unchanged.
var oddLooks = []string{"no archive", "dots", "dots upwards", "symbolic link", "twice"}

func (r published) archive(platform string) []byte {
	if r.Contents == "no archive" {
		return []byte("this is no zip archive")
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range r.contents(platform) {
		h := &zip.FileHeader{Name: e.name}
		h.SetMode(e.mode)
		if r.Contents == "deflated" {
			h.Method = zip.Deflate
		}
		if strings.HasSuffix(e.name, "/") {
			h.SetMode(e.mode | os.ModeDir)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, e.text)
		}
		if err != nil {
			panic(err) // nothing fails in memory
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// h1 returns the hash of the unpacked package.
func (r published) h1(platform string) string {
	text := map[string]string{}
	var names []string
	for _, e := range r.contents(platform) {
		if !strings.HasSuffix(e.name, "/") {
			name := filepath.Clean(e.name)
			names, text[name] = append(names, name), e.text
		}
	}
	h1, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text[name])), nil
	})
	if err != nil {
		panic(err) // the names are from this test
	}
	return h1
}

// A signing is the signer of a release, and the keys that the registry lists.
type signing struct {
	signer *sourcetest.Key
	keys   []*sourcetest.Key
}

var signings = map[string]func() signing{
	"":            func() signing { return signing{sourcetest.Publisher(), nil} },
	"unknown key": func() signing { return signing{sourcetest.Stranger(), []*sourcetest.Key{sourcetest.Publisher()}} },
	"no keys":     func() signing { return signing{sourcetest.Publisher(), []*sourcetest.Key{}} },
	"second key": func() signing {
		return signing{sourcetest.Publisher(), []*sourcetest.Key{sourcetest.Stranger(), sourcetest.Publisher()}}
	},
	"expired key": func() signing { return signing{sourcetest.Expired(), nil} },
	"revoked key": func() signing { return signing{sourcetest.Revoked(), nil} },
	"broken":      func() signing { return signing{sourcetest.Publisher(), nil} },
	"no key":      func() signing { return signing{sourcetest.Publisher(), nil} },
}

// filled returns the platforms of a release.
func (sc *scene) filled(r published) []string {
	return strings.Fields(sc.fill(strings.Join(r.Platforms, " ")))
}

func (sc *scene) publish(r published) {
	provider := sc.fill(r.Provider)
	sc.ground.publish(provider, sc.filled(r), r)
	if sc.usesOCI() && !slices.Contains(r.HiddenBy, "oci") {
		sc.world.PushOCI(provider + "/" + r.Version + "/*")
	}
	for _, server := range r.HiddenBy {
		pattern := provider + "/" + r.Version + "/*"
		switch server {
		case "registry":
			sc.world.Registry.Hide(pattern)
		case "mirror":
			sc.world.Mirror.Hide(pattern)
		}
	}
}

// sumsFaults are what editSums knows besides nothing.
var sumsFaults = []string{"more lines", "no sum", "one word", "starred", "missing"}

func (r published) editSums(b []byte) []byte {
	other := strings.Repeat("5a", 32)
	switch r.Sums {
	case "more lines":
		return append([]byte(other+"  terraform-provider-x_manifest.json\n"), b...)
	case "no sum":
		return append(b, "not-a-sum  file\n"...)
	case "one word":
		return append(b, "word\n"...)
	case "starred":
		return bytes.ReplaceAll(b, []byte("  "), []byte(" *"))
	case "missing":
		return []byte(other + "  something-else.zip\n")
	case "blank line":
		return append(b, '\n')
	}
	return b
}

// documentFaults are what editDownload knows besides nothing.
var documentFaults = []string{
	"other sum", "short sum", "no sum", "upper sum", "other os", "other name", "no url", "no sums url", "ftp",
	"no such url", "relative url", "garbage key",
}

func (r published) editDownload(doc map[string]any) {
	switch r.Document {
	case "other sum":
		doc["shasum"] = strings.Repeat("ab", 32)
	case "short sum":
		doc["shasum"] = "abcd"
	case "no sum":
		delete(doc, "shasum")
	case "upper sum":
		doc["shasum"] = strings.ToUpper(doc["shasum"].(string))
	case "other os":
		doc["os"] = "plan9"
	case "other name":
		doc["filename"] = "other.zip"
	case "no url":
		delete(doc, "download_url")
	case "no sums url":
		delete(doc, "shasums_url")
	case "ftp":
		doc["download_url"] = "ftp://example.test/x.zip"
	case "no such url":
		doc["download_url"] = "/nothing/there.zip"
	case "relative url":
		doc["download_url"] = "../../../../../../../.." + doc["download_url"].(string)
	case "garbage key":
		doc["signing_keys"] = map[string]any{"gpg_public_keys": []any{map[string]string{"ascii_armor": "garbage"}}}
	}
	if len(r.Protocols) == 0 {
		delete(doc, "protocols")
	}
	if r.Signing == "no key" {
		delete(doc, "signing_keys")
	}
}

// unpackable are those of the packages matching patterns that are archives, and
// out.
func (sc *scene) unpackable(patterns []string) []string {
	var ids []string
	for _, r := range sc.Releases {
		for _, platform := range r.Platforms {
			id := r.Provider + "/" + r.Version + "/" + platform
			meant := slices.ContainsFunc(patterns, func(p string) bool { return matches(p, id) })
			if meant && !slices.Contains(oddLooks, r.Contents) && !r.Later {
				ids = append(ids, sc.fill(id))
			}
		}
	}
	return ids
}

// matches reports whether s matches pattern, in which * stands for any text.
func matches(pattern, s string) bool {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`).MatchString(s)
}

// plant makes a tree.
func (sc *scene) plant(tr tree) {
	dir := filepath.Join(sc.dir, tr.Path)
	if tr.Twist == "absent" {
		return
	}
	sc.must(os.MkdirAll(dir, 0o755))
	for _, pattern := range tr.Packed {
		sc.world.WritePacked(dir, sc.fill(pattern))
	}
	for _, id := range sc.unpackable(tr.Unpacked) {
		sc.world.WriteUnpacked(dir, id)
	}
	sc.twist(dir, tr.Twist)
}

// twists are the variants of twist, and absent.
var twists = []string{
	"absent", "link", "linked packages", "linked type", "upper case", "short versions", "junk", "packed names",
}

// twist changes a filesystem mirror to an unusual variant.
func (sc *scene) twist(dir, how string) {
	switch how {
	case "link":
		sc.must(os.Rename(dir, dir+".real"))
		sc.must(os.Symlink(dir+".real", dir))
	case "linked packages":
		sc.relink(dir, "*/*/*/*/*")
		sc.relink(dir, "*/*/*/*.zip")
	case "linked type":
		sc.relink(dir, "*/*/*")
	case "upper case":
		sc.rename(dir, "*/*", func(name string) string { return strings.ToUpper(name[:1]) + name[1:] })
		sc.rename(dir, "*/*/*", strings.ToUpper)
	case "short versions":
		sc.rename(dir, "*/*/*/*", func(name string) string {
			return strings.Replace(strings.TrimSuffix(name, ".0"), ".0_", "_", 1)
		})
	case "packed names":
		sc.rename(dir, "*/*/*/*.zip", func(name string) string {
			return strings.ToUpper(strings.TrimSuffix(name, ".zip")) + "_more.zip"
		})
	case "junk":
		for _, name := range []string{
			"README", "index.json", "{home}/x", "xn--80akhbyknj4f.test/acme/widget/1.0.0/{platform}/x",
			"{home}/acme/widget/index.json", "{home}/acme/widget/v9.0.0/{platform}/terraform-provider-widget",
			"{home}/acme/widget/9.0.0/linux/terraform-provider-widget", "{home}/my_org/widget/9.0.0/{platform}/x",
			"{home}/acme/widget/.terraform-provider-widget_9.0.0_{platform}.zip", "terraform-provider-widget_v9.0.0",
			"{home}/acme/widget/terraform-provider-widget_9.0.0_linux.zip", "{home}/acme/widget/9.1.0/file",
			"{home}/acme/widget/1.2.3.4/{platform}/terraform-provider-widget", ".hidden/a/b/1.0.0/{platform}/x",
		} {
			sc.write(filepath.Join(dir, sc.fill(name)), "junk\n")
		}
	}
}

// relink replaces files that match pattern with symbolic links to them.
func (sc *scene) relink(dir, pattern string) {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	sc.must(err)
	for i, name := range found {
		real := filepath.Join(dir+".real", fmt.Sprint(i)+filepath.Ext(name))
		sc.must(os.MkdirAll(filepath.Dir(real), 0o755))
		sc.must(os.Rename(name, real))
		sc.must(os.Symlink(real, name))
	}
}

// rename gives what matches pattern the name that change makes of its own.
func (sc *scene) rename(dir, pattern string, change func(string) string) {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	sc.must(err)
	for _, name := range found {
		if changed := change(filepath.Base(name)); changed != filepath.Base(name) {
			sc.must(os.Rename(name, filepath.Join(filepath.Dir(name), changed)))
		}
	}
}

func (sc *scene) writeCache() {
	if sc.CacheDir == "" || sc.NoCache {
		return
	}
	dir := filepath.Join(sc.dir, sc.CacheDir)
	sc.must(os.MkdirAll(dir, 0o755))
	for _, p := range sc.Cached {
		sc.place(dir, p)
	}
}

// places are the variants of place.
var places = []string{"whole", "tampered", "stale file", "incomplete", "empty", "linked", "cached", "dangling", "file"}

// place puts a package into a cache or an installation.
func (sc *scene) place(dir string, p placed) {
	if len(sc.unpackable([]string{p.ID})) == 0 {
		return
	}
	id := sc.fill(p.ID)
	target := filepath.Join(dir, filepath.FromSlash(id))
	sc.must(os.MkdirAll(filepath.Dir(target), 0o755))
	switch p.How {
	case "empty":
		sc.must(os.Mkdir(target, 0o755))
		return
	case "cached": // which it may be or not
		if sc.CacheDir != "" {
			sc.must(os.Symlink(filepath.Join(sc.dir, sc.CacheDir, filepath.FromSlash(id)), target))
			return
		}
	case "dangling":
		sc.must(os.Symlink(filepath.Join(sc.dir, "nowhere"), target))
		return
	case "file":
		sc.write(target, "a file\n")
		return
	}
	sc.world.WriteUnpacked(dir, id)
	switch p.How {
	case "tampered":
		sc.eachFile(target, func(name string) { sc.must(os.WriteFile(name, []byte("tampered\n"), 0o755)) })
	case "stale file":
		sc.write(filepath.Join(target, "stale"), "stale\n")
	case "incomplete":
		sc.eachFile(target, func(name string) { sc.must(os.Remove(name)) })
	case "linked":
		elsewhere := filepath.Join(sc.dir, "elsewhere", filepath.Base(filepath.Dir(dir)), strings.ReplaceAll(id, "/", " "))
		sc.must(os.MkdirAll(filepath.Dir(elsewhere), 0o755))
		sc.must(os.Rename(target, elsewhere))
		sc.must(os.Symlink(elsewhere, target))
	}
}

// eachFile calls do for the first of the files in dir, if there is one.
func (sc *scene) eachFile(dir string, do func(name string)) {
	found, err := filepath.Glob(filepath.Join(dir, "terraform-*"))
	sc.must(err)
	for _, name := range found[:min(1, len(found))] {
		do(name)
	}
}

// hashKinds are the kinds of hash.
var hashKinds = []string{"h1", "zh", "h1 of zip", "others", "wrong h1", "wrong zh", "unknown"}

// wrongHashes are the hashes of no package, by kind.
var wrongHashes = map[string][]string{
	"wrong h1": {"h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
	"wrong zh": {"zh:" + strings.Repeat("0", 64)},
	"unknown":  {"h9:zzz", "future:"},
}

// hash returns a hash of a kind for a locked package, or none for an unknown kind.
func (sc *scene) hash(l locked, kind string) []string {
	if wrong, ok := wrongHashes[kind]; ok {
		return wrong
	}
	i := slices.IndexFunc(sc.Releases, func(r published) bool {
		return r.Provider == l.Provider && r.Version == l.Version && !r.Later
	})
	if i < 0 {
		return nil
	}
	r := sc.Releases[i]
	return sc.hashes(sc.fill(r.Provider), sc.filled(r), r, kind)
}

// lockForms are the variants of writeLock.
var lockForms = []string{"unsorted", "bare", "CRLF", "link", "commented", "packed"}

// writeLock writes the dependency lock file.
func (sc *scene) writeLock() {
	name, text := filepath.Join(sc.dir, "work", ".terraform.lock.hcl"), sc.lockText()
	switch sc.LockForm {
	case "bare":
		_, text, _ = strings.Cut(text, "\n\n")
	case "CRLF":
		text = strings.ReplaceAll(text, "\n", "\r\n")
	case "commented":
		text = "# ours\n" + text + "// the end\n"
	case "packed":
		text = regexp.MustCompile(`\n+`).ReplaceAllString(strings.ReplaceAll(text, "  ", ""), "\n")
	case "link":
		sc.must(os.Symlink("elsewhere.hcl", name))
		name = filepath.Join(filepath.Dir(name), "elsewhere.hcl")
	}
	sc.write(name, text)
}

// lockText is the text of the dependency lock file.
func (sc *scene) lockText() string {
	text := lockHeader(sc.Engine)
	for _, l := range sc.Lock {
		var hashes []string
		for _, kind := range l.Hashes {
			hashes = append(hashes, sc.hash(l, kind)...)
		}
		slices.Sort(hashes)
		if sc.LockForm == "unsorted" {
			slices.Reverse(hashes)
			hashes = append(hashes, hashes...)
		}
		l.Provider = sc.fill(l.Provider)
		text += l.text(hashes)
	}
	return text
}

func lockHeader(e sources.Engine) string {
	const edits = "# Manual edits may be lost in future updates.\n"
	return "# This file is maintained automatically by \"" + string(e) + " init\".\n" + edits
}

// text returns the block with these hashes.
func (l locked) text(hashes []string) string {
	text := fmt.Sprintf("\nprovider %q {\n", l.Provider)
	if l.Constraints == "" {
		text += fmt.Sprintf("  version = %q\n", l.Version)
	} else {
		text += fmt.Sprintf("  version     = %q\n  constraints = %q\n", l.Version, l.Constraints)
	}
	if len(hashes) > 0 {
		text += "  hashes = [\n"
		for _, h := range hashes {
			text += fmt.Sprintf("    %q,\n", h)
		}
		text += "  ]\n"
	}
	return text + l.Raw + "}\n"
}
