# fish completion for larder
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
