package main

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// recipe runs the commands in a file of docs/recipes, in the current directory, with $ENGINE in
// the place of terraform. It replaces what belongs to the CI system: the checkout, the cache,
// the images. The commands' output is in $WORK/log. With atlantis-repos.yaml, the word downloaded
// stands for an engine that Atlantis has downloaded. With action.yml it runs the action, with
// inputs of the form NAME=VALUE, and puts the outputs into variables of the form OUTPUT_NAME. $ACTION is
// the directory with the action's source, if it is not this repository, and $ACTION_REF the tag or the
// branch that the workflow names.
func recipe(ts *testscript.TestScript, _ bool, args []string) {
	r := &recipeRun{TestScript: ts, work: ts.Getenv("WORK"), path: ts.Getenv("PATH")}
	r.engine = cmp.Or(ts.Getenv("ENGINE"), "terraform")
	ts.Check(os.WriteFile(filepath.Join(r.work, "log"), nil, 0o644))
	if args[0] == "action.yml" {
		inputs := map[string]string{}
		for _, word := range args[1:] {
			name, value, _ := strings.Cut(word, "=")
			inputs[name] = value
		}
		r.githubAction(inputs)
		return
	}
	text := r.read("docs/recipes/" + args[0])
	switch args[0] {
	case "github-actions.yml", "check-github.yml", "publish-github.yml":
		for _, job := range parseYAML(text).(map[string]any)["jobs"].(map[string]any) {
			r.githubSteps(job.(map[string]any)["steps"].([]any), &githubScope{})
		}
		for _, after := range r.after {
			after()
		}
	case "gitlab-ci.yml", "check-gitlab.yml", "publish-gitlab.yml":
		for _, job := range parseYAML(text).(map[string]any) {
			r.gitlab(job.(map[string]any))
		}
	case "atlantis-repos.yaml":
		r.atlantis(parseYAML(text).(map[string]any), slices.Contains(args, "downloaded"))
	case "Jenkinsfile", "check.Jenkinsfile", "publish.Jenkinsfile":
		r.jenkins(text)
	case "shim.Dockerfile", "mirror.Dockerfile", "serve.Dockerfile":
		r.dockerfile(text)
	default:
		r.sh(nil, ".", text)
	}
}

// A recipeRun runs one recipe.
type recipeRun struct {
	*testscript.TestScript
	work, engine string
	path         string   // PATH of the next command
	after        []func() // what actions do at the end of a job
}

var namedEngine = regexp.MustCompile(`(^|[^.\w-])terraform([\s"'$]|$)`)

func (r *recipeRun) read(name string) string {
	text, err := os.ReadFile(filepath.Join(story(r.TestScript).repo, filepath.FromSlash(name)))
	r.Check(err)
	named := namedEngine.ReplaceAllString(string(text), "${1}"+r.engine+"${2}")
	return strings.ReplaceAll(named, "ghcr.io", "oci.example.test")
}

// sh runs a script, as the shells of CI systems do: the first failure ends it.
func (r *recipeRun) sh(env []string, dir, script string) {
	line := append([]string{"-C", dir, "PATH=" + r.path}, env...)
	err := r.Exec("env", append(line, "sh", "-e", "-c", "exec 2>&1\n"+script)...)
	out := r.ReadFile("stdout")
	if err != nil {
		r.Fatalf("%v in\n%s\n%s", err, script, out)
	}
	log, err := os.OpenFile(filepath.Join(r.work, "log"), os.O_APPEND|os.O_WRONLY, 0)
	r.Check(err)
	_, err = log.WriteString(out)
	r.Check(err)
	r.Check(log.Close())
}

// gitlab runs a job. GitLab restores the files in the project's directory that cache:paths
// names, runs the lines of the script in one shell, and saves the files.
func (r *recipeRun) gitlab(job map[string]any) {
	cache, _ := job["cache"].(map[string]any)
	key, _ := cache["key"].(string)
	paths, _ := cache["paths"].([]any)
	saved := filepath.Join(r.work, "gitlab-cache", key)
	for _, path := range paths {
		copyIfThere(r.TestScript, filepath.Join(saved, path.(string)), r.MkAbs(path.(string)))
	}
	var script []string
	for _, line := range job["script"].([]any) {
		script = append(script, line.(string))
	}
	r.sh(nil, ".", strings.Join(script, "\n"))
	for _, path := range paths {
		copyIfThere(r.TestScript, r.MkAbs(path.(string)), filepath.Join(saved, path.(string)))
	}
}

// copyIfThere copies a file or a directory.
func copyIfThere(ts *testscript.TestScript, from, to string) bool {
	info, err := os.Stat(from)
	if err != nil {
		return false
	}
	if info.IsDir() {
		syscall.ForkLock.RLock() // as sourcetest.WriteExecutable: the directory may contain larder
		err := os.CopyFS(to, os.DirFS(from))
		syscall.ForkLock.RUnlock()
		ts.Check(err)
		return true
	}
	content, err := os.ReadFile(from)
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(to), 0o755))
	ts.Check(os.WriteFile(to, content, 0o644))
	return true
}

// atlantis runs the workflow for the project in net, with the environment of Atlantis' run steps.
// Atlantis runs the other steps itself. It has either found the engine on PATH, or downloaded it to
// a directory at the end of PATH and named it after its version. In the second case, another engine on PATH
// fails.
func (r *recipeRun) atlantis(config map[string]any, downloaded bool) {
	name := config["repos"].([]any)[0].(map[string]any)["workflow"].(string)
	stages := config["workflows"].(map[string]any)[name].(map[string]any)
	engine := r.engine
	if downloaded {
		engine += "1.9.9"
		program, err := exec.LookPath(r.engine)
		r.Check(err)
		wrong, bin := filepath.Join(r.work, "atlantis-image"), filepath.Join(r.work, "atlantis-data", "bin")
		r.Check(os.MkdirAll(wrong, 0o755))
		r.Check(os.WriteFile(filepath.Join(wrong, r.engine), []byte("#!/bin/sh\necho the wrong engine\nexit 1\n"), 0o755))
		r.Check(os.MkdirAll(bin, 0o755))
		r.Check(os.Symlink(program, filepath.Join(bin, engine)))
		r.path = strings.Join([]string{wrong, r.path, bin}, ":")
	}
	env := []string{"ATLANTIS_TERRAFORM_DISTRIBUTION=" + r.engine, "ATLANTIS_TERRAFORM_VERSION=1.9.9"}
	for _, stage := range []string{"plan", "import", "state_rm"} {
		for _, s := range stages[stage].(map[string]any)["steps"].([]any) {
			if step, ok := s.(map[string]any); ok {
				r.sh(env, "net", step["run"].(string))
			} else {
				r.sh(nil, "net", engine+" plan -input=false")
			}
		}
	}
}

var (
	jenkinsVariable = regexp.MustCompile(`(?m)^ *([A-Z_]+) = (?:'(.*)'|credentials\('.*'\))$`)
	jenkinsScript   = regexp.MustCompile(`(?s)\bsh '''(.*?)'''`)
)

// jenkins runs the scripts of a pipeline with its environment. Credentials are those in the environment of the story,
// or made up.
func (r *recipeRun) jenkins(text string) {
	var env []string
	for _, m := range jenkinsVariable.FindAllStringSubmatch(text, -1) {
		value := cmp.Or(r.Getenv(m[1]), "the secret of this pipeline")
		if m[2] != "" {
			value = r.work + m[2]
		}
		env = append(env, m[1]+"="+value)
	}
	for _, m := range jenkinsScript.FindAllStringSubmatch(text, -1) {
		r.sh(env, ".", m[1])
	}
}

var inImage = regexp.MustCompile(`(^|[\s=:"])(/[\w./-]+)`)

// dockerfile runs the instructions of a Dockerfile. Each stage has a directory as its file
// system. It is empty, but for the engine in an image of that name. The last stage's is $IMAGE,
// and its PATH becomes that of the story.
func (r *recipeRun) dockerfile(text string) {
	roots := map[string]string{}
	var root, dir string
	inside := func(words string) string { return inImage.ReplaceAllString(words, "${1}"+root+"${2}") }
	for line := range strings.Lines(text) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch instruction {
		case "FROM":
			root = filepath.Join(r.work, "docker", strconv.Itoa(len(roots)))
			roots[words[len(words)-1]] = root
			dir = root
			r.Check(os.MkdirAll(filepath.Join(root, "bin"), 0o755))
			if strings.Contains(words[0], "/terraform:") {
				program, err := exec.LookPath(r.engine)
				r.Check(err)
				r.Check(os.Symlink(program, filepath.Join(root, "bin", r.engine)))
			}
			r.path = strings.Join([]string{root + "/usr/local/bin", root + "/bin", r.Getenv("PATH")}, ":")
		case "WORKDIR":
			dir = inside(words[0])
			r.Check(os.MkdirAll(dir, 0o755))
		case "COPY":
			source, from, to := r.MkAbs("."), words[len(words)-2], words[len(words)-1]
			if stage, ok := strings.CutPrefix(words[0], "--from="); ok {
				source = roots[stage] // it is always the first flag
			}
			if strings.HasPrefix(to, "/") {
				to = root + to
			}
			r.sh([]string{"FROM=" + filepath.Join(source, from), "TO=" + to}, dir, `mkdir -p "$(dirname "$TO")"
				if [ -d "$FROM" ]; then cp -a "$FROM/." "$TO"; else cp -a "$FROM" "$TO"; fi`)
		case "RUN":
			r.sh(nil, dir, inside(rest))
		case "ENV":
			name, value, _ := strings.Cut(inside(rest), "=")
			switch name {
			case "PATH":
				r.path = strings.ReplaceAll(value, "$PATH", r.path)
			case "HOME": // the story's
			default:
				r.Fatalf("ENV %s is not supported", name)
			}
		case "USER", "ENTRYPOINT": // for containers
		case "#", "":
		default:
			r.Fatalf("the instruction %s is not supported", instruction)
		}
	}
	r.Setenv("IMAGE", root)
	r.Setenv("PATH", r.path)
}

// A githubScope has what expressions of steps refer to.
type githubScope struct {
	inputs  map[string]string
	outputs map[string]string // STEP.outputs.NAME
	action  string            // directory of the action
}

// githubSteps runs the steps of a job or of a composite action.
func (r *recipeRun) githubSteps(steps []any, scope *githubScope) {
	scope.outputs = map[string]string{}
	for _, s := range steps {
		step := s.(map[string]any)
		if condition, ok := step["if"]; ok && !r.githubCondition(condition.(string), scope) {
			continue
		}
		outputs := r.githubStep(step, scope)
		for name, value := range outputs {
			if id, ok := step["id"]; ok {
				scope.outputs[id.(string)+".outputs."+name] = value
			}
		}
	}
}

func (r *recipeRun) githubStep(step map[string]any, scope *githubScope) (outputs map[string]string) {
	values := func(name string) map[string]string {
		all := map[string]string{}
		fields, _ := step[name].(map[string]any)
		for key, value := range fields {
			all[key] = r.githubText(value.(string), scope)
		}
		return all
	}
	if script, ok := step["run"].(string); ok {
		if strings.HasPrefix(script, "go install ") {
			script = "echo building larder"
		}
		return r.githubScript(step, script, values("env"), scope)
	}
	action, _, _ := strings.Cut(step["uses"].(string), "@")
	with := values("with")
	saved := filepath.Join(r.work, "github-cache", with["key"])
	switch action {
	case "actions/checkout", "hashicorp/setup-terraform":
	case "actions/setup-go":
		r.sh(nil, ".", "echo setting up Go")
	case "docker/login-action":
		login := base64.StdEncoding.EncodeToString([]byte(with["username"] + ":" + with["password"]))
		file := filepath.Join(r.Getenv("HOME"), ".docker", "config.json")
		r.Check(os.MkdirAll(filepath.Dir(file), 0o700))
		r.Check(os.WriteFile(file, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, with["registry"], login), 0o600))
	case "actions/cache":
		path := r.MkAbs(with["path"])
		if !copyIfThere(r.TestScript, saved, path) {
			r.after = append(r.after, func() { copyIfThere(r.TestScript, path, saved) })
		}
	case "actions/cache/restore":
		if copyIfThere(r.TestScript, saved, with["path"]) {
			return map[string]string{"cache-hit": "true"}
		}
	case "actions/cache/save":
		if !copyIfThere(r.TestScript, with["path"], saved) {
			r.Fatalf("there is no %s to save", with["path"])
		}
	case "github/codeql-action/upload-sarif":
		if !copyIfThere(r.TestScript, r.MkAbs(with["sarif_file"]), filepath.Join(r.work, "uploaded.sarif")) {
			r.Fatalf("there is no %s to upload", with["sarif_file"])
		}
	case "larder-cli/larder":
		r.githubAction(with)
	default:
		r.Fatalf("the action %s is unknown", action)
	}
	return nil
}

// githubAction runs action.yml.
func (r *recipeRun) githubAction(with map[string]string) {
	action := parseYAML(r.read("action.yml")).(map[string]any)
	scope := &githubScope{inputs: map[string]string{}, action: cmp.Or(r.Getenv("ACTION"), story(r.TestScript).repo)}
	for name, input := range action["inputs"].(map[string]any) {
		scope.inputs[name] = input.(map[string]any)["default"].(string)
	}
	for name, value := range with {
		if _, ok := scope.inputs[name]; !ok {
			r.Fatalf("the action has no input %s", name)
		}
		scope.inputs[name] = value
	}
	r.githubSteps(action["runs"].(map[string]any)["steps"].([]any), scope)
	for name, output := range action["outputs"].(map[string]any) {
		r.Setenv("OUTPUT_"+strings.ReplaceAll(name, "-", "_"), r.githubText(output.(map[string]any)["value"].(string), scope))
	}
}

// githubScript runs a shell step, and returns the outputs that it has written.
func (r *recipeRun) githubScript(
	step map[string]any, script string, env map[string]string, scope *githubScope,
) map[string]string {
	files := map[string]string{}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_PATH"} {
		files[name] = filepath.Join(r.work, name)
		r.Check(os.WriteFile(files[name], nil, 0o644))
	}
	vars := []string{
		"RUNNER_TEMP=" + r.temp(), "GITHUB_ACTION_PATH=" + scope.action, "GITHUB_SERVER_URL=https://github.com",
	}
	for _, all := range []map[string]string{files, env} {
		for name, value := range all {
			vars = append(vars, name+"="+value)
		}
	}
	dir := "."
	if d, ok := step["working-directory"].(string); ok {
		dir = r.githubText(d, scope)
	}
	r.sh(vars, dir, script)
	outputs := map[string]string{}
	for line := range strings.Lines(r.ReadFile(files["GITHUB_OUTPUT"])) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	for line := range strings.Lines(r.ReadFile(files["GITHUB_PATH"])) {
		r.path = strings.TrimSpace(line) + ":" + r.path
	}
	return outputs
}

func (r *recipeRun) temp() string { return filepath.Join(r.work, "runner") }

var githubExpression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

// githubText replaces the expressions in a text.
func (r *recipeRun) githubText(text string, scope *githubScope) string {
	return githubExpression.ReplaceAllStringFunc(text, func(e string) string {
		return r.githubValue(githubExpression.FindStringSubmatch(e)[1], scope)
	})
}

func (r *recipeRun) githubValue(expression string, scope *githubScope) string {
	contexts, name, _ := strings.Cut(expression, ".")
	switch {
	case strings.HasPrefix(expression, "'"):
		return strings.Trim(expression, "'")
	case contexts == "inputs":
		value, ok := scope.inputs[name]
		if !ok {
			r.Fatalf("there is no input %s", name)
		}
		return value
	case contexts == "steps":
		return scope.outputs[name]
	case expression == "runner.temp":
		return r.temp()
	case expression == "runner.os", expression == "runner.arch":
		return strings.TrimPrefix(expression, "runner.")
	case expression == "github.actor", expression == "secrets.GITHUB_TOKEN", expression == "github.run_id":
		return name
	case expression == "github.action_path":
		return scope.action
	case expression == "github.action_ref":
		return r.Getenv("ACTION_REF")
	case expression == "github.action_repository":
		return "example/larder"
	}
	r.Fatalf("the expression %s is not supported", expression)
	return ""
}

// githubCondition evaluates comparisons, joined by &&.
func (r *recipeRun) githubCondition(text string, scope *githubScope) bool {
	if text == "always()" {
		return true
	}
	for _, comparison := range strings.Split(text, " && ") {
		words := strings.Fields(comparison)
		same := r.githubValue(words[0], scope) == r.githubValue(words[2], scope)
		if same != (words[1] == "==") {
			return false
		}
	}
	return true
}

// Scripts of the action contain no expressions: their values would become part of the script.
// The guide has all inputs.
func TestAction(t *testing.T) {
	action := parseYAML(document(t, "action.yml")).(map[string]any)
	guide := document(t, "docs/ci.md")
	for name, input := range action["inputs"].(map[string]any) {
		row := "\n| `" + name + "` | "
		if value := input.(map[string]any)["default"].(string); value != "" {
			row += "`" + value + "` "
		}
		sourcetest.Expect(t, strings.Contains(guide, row+"| "), "docs/ci.md has no row %q", row)
	}
	n := 0
	for _, s := range action["runs"].(map[string]any)["steps"].([]any) {
		if script, ok := s.(map[string]any)["run"].(string); ok {
			n++
			sourcetest.Expect(t, !strings.Contains(script, "${{"), "an expression in\n%s", script)
		}
	}
	sourcetest.Expect(t, n >= 3, "%d scripts", n)
}

var included = regexp.MustCompile("(?m)^<!-- (recipes/\\S+) -->\n\n```\\w*\n((?s).*?)```$")

// The guides show each recipe as it is.
func TestGuideShowsRecipes(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	shown := map[string]bool{}
	for _, name := range []string{"ci.md", "publish.md", "serve.md"} {
		path := filepath.Join(docs, name)
		text := string(sourcetest.ReadFile(t, path))
		happened := included.ReplaceAllStringFunc(text, func(block string) string {
			m := included.FindStringSubmatch(block)
			shown[m[1]] = true
			return strings.Replace(block, m[2], string(sourcetest.ReadFile(t, filepath.Join(docs, m[1]))), 1)
		})
		if *update {
			sourcetest.Check(t, os.WriteFile(path, []byte(happened), 0o644))
		} else {
			const how = "go test ./cmd/larder -run TestGuideShowsRecipes -update"
			sourcetest.Expect(t, happened == text, "docs/%s shows other recipes. To update it: %s", name, how)
		}
	}
	recipes, err := filepath.Glob(filepath.Join(docs, "recipes", "*"))
	sourcetest.Check(t, err)
	for _, file := range recipes {
		name := "recipes/" + filepath.Base(file)
		sourcetest.Expect(t, shown[name], "no guide shows %s", name)
	}
}
