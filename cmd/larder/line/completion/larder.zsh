#compdef larder
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
