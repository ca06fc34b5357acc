# bash completion for larder
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
