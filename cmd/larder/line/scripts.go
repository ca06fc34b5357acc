package line

// Shells are the shells that have completion scripts.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Scripts are the completion scripts of shells. They run larder __complete to list completions, one on each line with a
// description after a tab. A last line of :files or :dirs adds names of files or
// directories.
var Scripts = map[string]string{
	"bash": `# bash completion for larder
_larder() {
  local line=${COMP_LINE:0:COMP_POINT} cur char head prefix= kind=
  local -a words
  # COMP_WORDS is split at = and @ too, which larder does not do.
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  cur=${words[${#words[@]} - 1]}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) kind=-f ;;
      :dirs) kind=-d ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  # Bash replaces what follows the last of these characters, and an @ too.
  for char in = : @; do
    if [[ $COMP_WORDBREAKS == *"$char"* && $cur == *"$char"* ]]; then
      head=${cur%"${cur##*"$char"}"}
      [[ $char == @ ]] && head=${head%@}
      ((${#head} > ${#prefix})) && prefix=$head
    fi
  done
  COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
  if [[ $kind ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen $kind -- "${cur#"$prefix"}")
  fi
}
complete -F _larder larder
`,
	"zsh": `#compdef larder
# zsh completion for larder
_larder() {
  local line word kind=
  local -a values descriptions
  while IFS= read -r line; do
    case $line in
      :files|:dirs) kind=${line#:} ;;
      *)
        word=${line%%$'\t'*}
        values+=("$word")
        if [[ $line == *$'\t'* ]]; then
          descriptions+=("$word -- ${line#*$'\t'}")
        else
          descriptions+=("$word")
        fi
        ;;
    esac
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( ${#values} )) && compadd -l -d descriptions -a values
  case $kind in
    files) _files ;;
    dirs) _files -/ ;;
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _larder "$@"
else
  compdef _larder larder
fi
`,
	"fish": `# fish completion for larder
function __larder_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l current (commandline -ct)
  for line in (command $words[1] __complete $words[2..-1] 2>/dev/null)
    switch $line
      case :files
        __fish_complete_path $current
      case :dirs
        __fish_complete_directories $current
      case '*'
        echo $line
    end
  end
end
complete -c larder -f -a '(__larder_complete)'
`,
	"powershell": `# PowerShell completion for larder
Register-ArgumentCompleter -Native -CommandName larder -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
  if ($wordToComplete -eq '') { $words += '""' }
  & larder __complete @words 2>$null | ForEach-Object {
    if ($_ -eq ':files' -or $_ -eq ':dirs') {
      Get-ChildItem -Path "$wordToComplete*" -Directory:($_ -eq ':dirs') -ErrorAction SilentlyContinue |
        ForEach-Object { [System.Management.Automation.CompletionResult]::new($_.Name, $_.Name, 'ProviderItem', $_.Name) }
    } else {
      $value, $about = $_ -split [char]9, 2
      if (-not $about) { $about = $value }
      [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $about)
    }
  }
}
`,
}
