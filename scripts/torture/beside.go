//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A turn is a run of a program in a root module.
type turn struct {
	engine   bool             // whether the engine runs; otherwise larder
	link     sources.LinkMode // larder's link mode
	fresh    bool             // remove installed packages first
	unlocked bool             // remove the lock file first
	pause    time.Duration    // before the run
	kill     time.Duration    // time until the process is killed; 0 means never
	atWork   bool             // kill counts from the next request for an archive
	must     bool             // the run must succeed unless it is killed
}

// turns is the number of turns in each root module in a round.
const turns = 3

// patience is longer than any turn takes. A turn that takes longer is waiting
// for a lock forever.
const patience = 2 * time.Minute

// An outcome is the result of a turn.
type outcome struct {
	turn
	killed, failed bool
	problem        error // an error that must not occur
}

// round runs larder in root modules with a shared plugin cache that is empty at first, in all of them at the same time,
// and again. If an engine takes part, half of the processes are its own, and alternate with larder's. In every other
// round, half of the processes are killed. The requirements:
//
//   - Larder succeeds unless it is killed, whatever engines do or leave.
//   - OpenTofu, which locks packages, succeeds unless an OpenTofu process is
//     killed. After that it may reject the incomplete package in the cache,
//     until the next larder install replaces it.
//   - After OpenTofu or Larder succeeds, the packages are correct at once and
//     remain so, except for links to packages that Terraform unpacks in place.
//   - After all processes have ended, packages are correct wherever a program
//     succeeded, if none was killed. In any case they are correct after the
//     next larder install.
//   - That install succeeds. Then each program succeeds when it runs alone.
//   - Without an engine, no package in the cache is ever incomplete, and if no
//     process is killed, each archive is sent only once.
//
// Terraform may lock the hash of a damaged package. Larder and these tests
// accept every package that the root module's lock file accepts.
func (k *rack) round(number int) report {
	k.world.Registry.Forget()
	kills := number%2 == 1
	stop := func() {}
	if k.opts.engine == "" {
		stop = k.watch()
	}
	outcomes := make([][]outcome, k.opts.processes)
	var wg, damage sync.WaitGroup
	for i := range outcomes {
		root, plan := fmt.Sprintf("root%d", i), k.plan(i, kills)
		k.prepare(root, "") // not part of the concurrent runs
		wg.Go(func() {
			for _, t := range plan {
				o := k.take(root, t)
				if outcomes[i] = append(outcomes[i], o); o.problem != nil {
					return
				}
			}
		})
	}
	quiet := make(chan struct{})
	if kills && k.opts.engine == sources.Terraform {
		damage.Go(func() { k.damageInPlace(quiet) })
	}
	wg.Wait()
	close(quiet)
	damage.Wait()
	stop()
	r := report{round: number, sent: float64(k.sent()) / float64(k.total)}
	for _, o := range slices.Concat(outcomes...) {
		r.runs++
		switch {
		case o.killed:
			r.killed++
		case o.failed:
			r.failed++
		}
	}
	for i, all := range outcomes {
		o := all[len(all)-1]
		if o.problem == nil && !o.killed && !o.failed && (r.killed == 0 || k.keeps(o.turn)) {
			o.problem = k.right(fmt.Sprintf("root%d", i))
		}
		if o.problem != nil {
			k.t.Fatalf("round %d: root%d: %v", number, i, o.problem)
		}
	}
	if k.opts.engine == "" && r.killed == 0 && r.sent > 1 {
		k.t.Fatalf("round %d: each byte was sent %.2f times", number, r.sent)
	}
	k.check(number)
	if err := k.alone(); err != nil {
		k.t.Fatalf("round %d: afterwards, alone: %v", number, err)
	}
	return r
}

// manyFiles returns additional files for a package, so that an engine takes a
// while to unpack it.
func manyFiles(name string) map[string]string {
	files := map[string]string{}
	for i := range docs {
		files[docName(i)] = strings.Repeat(fmt.Sprintf("%s, page %d\n", name, i), 4000)
	}
	return files
}

const docs = 50

func docName(i int) string { return fmt.Sprintf("docs/%d/%d.md", i%10, i) }

// plan returns the turns in one root module. Larder and the engine alternate.
func (k *rack) plan(i int, kills bool) []turn {
	plan := make([]turn, turns)
	for j := range plan {
		plan[j] = turn{
			engine:   k.opts.engine != "" && (i+j)%2 == 1,
			link:     sources.LinkModes[k.random.IntN(len(sources.LinkModes))],
			fresh:    k.random.IntN(2) == 0,
			unlocked: k.random.IntN(3) == 0,
			pause:    time.Duration(k.random.IntN(200)) * time.Millisecond,
		}
		if plan[j].link == sources.LinkReflink {
			plan[j].link = sources.LinkAuto // many file systems do not support reflinks
		}
		plan[j].must = !plan[j].engine || k.opts.engine == sources.OpenTofu && !kills
		if kills && k.random.IntN(2) == 0 {
			plan[j].kill = time.Duration(1+k.random.IntN(2000)) * time.Millisecond
			if plan[j].atWork = k.random.IntN(3) > 0; plan[j].atWork {
				plan[j].kill /= 10
			}
		}
	}
	return plan
}

// take runs a program in a root module.
func (k *rack) take(root string, t turn) outcome {
	o := outcome{turn: t}
	time.Sleep(t.pause)
	dir := filepath.Join(k.dir, root)
	if t.fresh {
		o.problem = os.RemoveAll(filepath.Join(dir, ".terraform"))
	}
	if t.unlocked {
		o.problem = cmp.Or(o.problem, os.RemoveAll(filepath.Join(dir, ".terraform.lock.hcl")))
	}
	before := k.strange(root)
	p := k.program(root, t.engine, "--link", string(t.link))
	if o.problem = cmp.Or(o.problem, p.cmd.Start()); o.problem != nil {
		return o
	}
	over := make(chan struct{})
	if t.kill > 0 {
		go k.killIn(t, p, over)
	}
	var hangs atomic.Bool
	defer time.AfterFunc(patience, func() { hangs.Store(true); p.cmd.Process.Kill() }).Stop()
	err := p.cmd.Wait()
	close(over)
	o.killed = err != nil && p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
	o.failed = err != nil && !o.killed
	switch {
	case hangs.Load():
		o.problem = fmt.Errorf("it takes more than %s", patience)
	case o.failed && t.must:
		o.problem = err
	case err == nil && k.keeps(t):
		o.problem = k.right(root)
	}
	if strange := k.strange(root); !t.engine && !slices.Equal(strange, before) {
		o.problem = cmp.Or(o.problem, fmt.Errorf("larder locks %q", strange))
	}
	if o.problem != nil {
		o.problem = fmt.Errorf("%+v: %v: %w\n%s", t, p.cmd.Args, o.problem, &p.out)
	}
	return o
}

// damageInPlace damages packages in the cache like a Terraform that is killed
// while it unpacks in place. Killing at random times rarely has that effect.
func (k *rack) damageInPlace(quiet chan struct{}) {
	random := rand.New(rand.NewPCG(k.opts.seed, k.random.Uint64()))
	for {
		select {
		case <-quiet:
			return
		case <-time.After(time.Duration(100+random.IntN(500)) * time.Millisecond):
		}
		name := k.opts.providers[random.IntN(len(k.opts.providers))]
		file := []string{"terraform-provider-" + name + "_v1.0.0", docName(random.IntN(docs))}[random.IntN(2)]
		path := filepath.Join(k.cache(), entryPath(name), filepath.FromSlash(file))
		if info, err := os.Stat(path); err == nil {
			_ = os.Truncate(path, info.Size()/2) // fails if the package has been replaced in the meantime
		}
	}
}

// killIn kills the process of a turn at the planned time, unless the process
// ends earlier.
func (k *rack) killIn(t turn, p *process, over chan struct{}) {
	requests := func() int { return len(k.world.Registry.Requests(sourcetest.Archive)) }
	for before := requests(); t.atWork && requests() == before; {
		select {
		case <-over:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
	select {
	case <-over:
	case <-time.After(t.kill):
		p.cmd.Process.Kill()
	}
}

// program returns a process that installs packages in a root module: the engine's, or larder's with these flags.
func (k *rack) program(root string, engine bool, flags ...string) *process {
	if engine {
		return k.command(root, string(k.opts.engine), "init", "-input=false", "-no-color")
	}
	choice := string(cmp.Or(k.opts.engine, sources.Terraform))
	return k.command(root, k.larder, append([]string{"install", "--quiet", "--engine", choice}, flags...)...)
}

// keeps reports whether no other process can change the packages that a turn
// has installed. Terraform unpacks in place, through links into the cache, and
// Larder does not replace links to the correct package.
func (k *rack) keeps(t turn) bool {
	return k.opts.engine != sources.Terraform || !t.engine && t.fresh && t.link == sources.LinkCopy
}

// right returns an error unless a root module has the packages that it
// requires, and their hashes are in its lock file.
func (k *rack) right(root string) error {
	for _, name := range k.opts.providers {
		zh, want := k.published(name)
		got, err := hash(filepath.Join(k.dir, root, ".terraform", "providers", entryPath(name)))
		if err != nil {
			return err
		}
		locked := k.locked(root, name)
		if k.opts.engine == sources.Terraform && slices.Contains(locked, got) {
			continue // Terraform has locked the damaged package, so the lock file accepts it
		}
		if got != want {
			return fmt.Errorf("in %s there is %s of %s, want %s", root, got, name, want)
		}
		byTerraform := k.opts.engine == sources.Terraform && slices.Contains(locked, zh)
		if !slices.Contains(locked, want) && !byTerraform {
			return fmt.Errorf("in %s %s is locked with %q, want %s", root, name, locked, want)
		}
	}
	if strange := k.strange(root); k.opts.engine != sources.Terraform && len(strange) > 0 {
		return fmt.Errorf("%s locks %q", root, strange)
	}
	return nil
}

var lockedHash = regexp.MustCompile(`"((?:h1|zh):[^"]*)"`)

// locked returns the hashes of a provider in a root module's lock file.
func (k *rack) locked(root, name string) (hashes []string) {
	text, _ := os.ReadFile(filepath.Join(k.dir, root, ".terraform.lock.hcl"))
	_, block, _ := strings.Cut(string(text), fmt.Sprintf("provider %q {\n  version = \"1.0.0\"\n", address(name)))
	block, _, whole := strings.Cut(block, "\n}\n")
	for _, m := range lockedHash.FindAllStringSubmatch(block, -1) {
		if whole {
			hashes = append(hashes, m[1])
		}
	}
	return hashes
}

// strange returns the locked hashes of packages that were never published.
// Terraform locks the hashes of packages while another process is unpacking
// them, and Larder keeps locked hashes.
func (k *rack) strange(root string) (hashes []string) {
	for _, name := range k.opts.providers {
		zh, h1 := k.published(name)
		for _, hash := range k.locked(root, name) {
			if hash != h1 && hash != zh {
				hashes = append(hashes, hash)
			}
		}
	}
	return hashes
}

// alone runs one program after the other in the root modules of the earlier
// turns. All must succeed, and files of killed processes must have been
// removed.
func (k *rack) alone() error {
	for i := range k.opts.processes {
		root := fmt.Sprintf("root%d", i)
		engine := k.opts.engine != "" && i%2 == 1
		if err := k.program(root, engine).finish(); err != nil {
			return err
		}
		if err := k.right(root); err != nil {
			return err
		}
		left, err := filepath.Glob(filepath.Join(k.dir, root, ".terraform", "providers", ".larder-*"))
		if err != nil || !engine && len(left) > 0 {
			return errors.Join(err, fmt.Errorf("%q is left over", left))
		}
	}
	return k.command("last", k.larder, "cache", "verify").finish()
}
