# Writes gqa-cache.1 (man) and completions for bash, zsh and fish, of what the command says of itself in its help.
#   cmake -DPROGRAM=gqa-cache -DVERSION=0.2.0 -DOUTPUT=FOLDER -P command_pages.cmake
# Owns: the forms. Never: knows a command or an option of its own.
string(ASCII 31 semicolon)  # stands for one until a file is written, as a list ends an item with it

function(ask result)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_VARIABLE told COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "${semicolon}" told "${told}")
  set(${result} "${told}" PARENT_SCOPE)
endfunction()

# The long and short options that a help names.
function(options_of text result)
  string(REGEX MATCH "\nOptions:\n(.*)" options "${text}")
  string(REGEX MATCHALL "\n  -[^ :]*" lines "${options}")
  string(REGEX MATCHALL "--?[A-Za-z][A-Za-z0-9-]*" found "${lines}")
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Text as troff prints it: word for word.
function(troff text result)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(words list result)
  list(JOIN list " " joined)
  set(${result} "${joined}" PARENT_SCOPE)
endfunction()

ask(main)
string(REGEX MATCH "\nSubcommands:\n(.*\n)\n" _ "${main}")
string(REGEX MATCHALL "(^|\n)  [a-z][a-z, ]*  +[^\n]+" lines "${CMAKE_MATCH_1}")
if(NOT lines)
  message(FATAL_ERROR "${PROGRAM} help lists no command")
endif()
options_of("${main}" common)
words("${common}" common)
string(REGEX MATCH "^[^\n]*" purpose "${main}")

troff("${main}" main)
set(man ".TH GQA\\-CACHE 1 \"\" \"gqa ${VERSION}\"\n"
  ".SH NAME\ngqa\\-cache \\- kernels that gqa keeps in its cache file\n"
  ".SH SYNOPSIS\n.B gqa\\-cache\n[\\fIoptions\\fR] \\fIcommand\\fR\n.SH DESCRIPTION\n.nf\n${main}.fi\n")
set(commands)
set(bash_cases)
set(zsh_commands)
set(zsh_cases)
set(fish)
foreach(line IN LISTS lines)
  string(REGEX MATCH "^\n?  ([a-z][a-z, ]*[a-z])  +(.+)$" _ "${line}")
  set(purpose_of "${CMAKE_MATCH_2}")
  string(REPLACE ", " ";" names "${CMAKE_MATCH_1}")
  list(APPEND commands ${names})
  list(GET names 0 command)
  ask(help ${command})
  options_of("${help}" options)
  troff("${help}" text)
  string(TOUPPER "${command}" title)
  list(APPEND man ".SH ${title}\n.nf\n${text}.fi\n")
  string(REPLACE "'" "'\\''" zsh_purpose "${purpose_of}")
  string(REPLACE "'" "\\'" fish_purpose "${purpose_of}")
  words("${options}" words)
  list(JOIN names "|" either)
  list(APPEND bash_cases "    ${either}) words='${words}'${semicolon}${semicolon}\n")
  list(APPEND zsh_cases "  ${either}) offered=(${words})${semicolon}${semicolon}\n")
  foreach(name IN LISTS names)
    list(APPEND zsh_commands "  '${name}:${zsh_purpose}'\n")
    list(APPEND fish "complete -c gqa-cache -n __fish_use_subcommand -f -a ${name} -d '${fish_purpose}'\n")
    foreach(option IN LISTS options)
      if(option MATCHES "^--(.*)")
        list(APPEND fish "complete -c gqa-cache -n '__fish_seen_subcommand_from ${name}' -l ${CMAKE_MATCH_1}\n")
      endif()
    endforeach()
  endforeach()
endforeach()
words("${commands}" command_words)
list(JOIN commands "|" either)

string(CONCAT man ${man})
string(CONCAT bash "# Completions of gqa-cache for bash, made of its help.
_gqa_cache() {
  local current=\${COMP_WORDS[COMP_CWORD]} words='${command_words} ${common}' word
  for word in \"\${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do
    case $word in
" ${bash_cases} "    *) continue ;;
    esac
    break
  done
  if [[ $current == -* || $words != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")
  fi
}
complete -o default -F _gqa_cache gqa-cache
")
string(CONCAT zsh "#compdef gqa-cache
# Completions of gqa-cache for zsh, made of its help.
local -a commands offered
commands=(
" ${zsh_commands} ")
local command=\${words[(r)(${either})]}
offered=(${common})
case $command in
" ${zsh_cases} "esac
if [[ $PREFIX == -* ]]; then
  compadd -- $offered
elif [[ -z $command ]]; then
  _describe command commands
else
  _files
fi
")
string(CONCAT fish "# Completions of gqa-cache for fish, made of its help.\n" ${fish})

function(put name text)
  string(REPLACE "${semicolon}" ";" text "${text}")
  file(WRITE ${OUTPUT}/${name} "${text}")
endfunction()
put(gqa-cache.1 "${man}")
put(gqa-cache.bash "${bash}")
put(_gqa-cache "${zsh}")
put(gqa-cache.fish "${fish}")
