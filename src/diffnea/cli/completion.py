"""Completion for shells: scripts that are made of the commands' own arguments, so that they cannot fall behind."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from diffnea.benchmark.grid import DATASETS, MODELS, SYSTEMS, TRAININGS
from diffnea.cli.arguments import ACTUATORS, AUTO, LEARN
from diffnea.cli.registry import COMMANDS, arguments_class

# What may stand where the type is only "text".
_WORDS = {
    "learn": LEARN,
    "actuator": (AUTO, *ACTUATORS),
    "systems": SYSTEMS,
    "datasets": DATASETS,
    "models": ("all", *MODELS),
    "trainings": TRAININGS,
}


class Option(NamedTuple):
    """An option of a command: what it takes (nothing, one word, several), and of which words, if they are known."""

    name: str
    about: str
    takes: Literal["nothing", "one", "several"]
    words: tuple[str, ...] = ()


def options(command: str) -> Iterator[Option]:
    """Of one command, in the order of its help."""
    kind = arguments_class(command)
    hints, about = get_type_hints(kind, include_extras=True), _about(kind)
    for field in dataclasses.fields(kind):
        plain, marks = hints[field.name], ()
        if get_origin(plain) is Annotated:
            plain, *marks = get_args(plain)
        if Positional in marks:
            continue
        choices = [each for each in (plain, *get_args(plain)) if get_origin(each) is Literal]
        known = get_args(choices[0]) if choices else _WORDS.get(field.name, ())
        takes = "nothing" if plain is bool else "several" if get_origin(plain) is tuple else "one"
        yield Option(f"--{field.name.replace('_', '-')}", about.get(field.name, ""), takes, tuple(known))


def _about(kind: Any) -> dict[str, str]:
    """The first words on each field, which stand below it in the source."""
    import ast
    import inspect

    body = ast.parse(inspect.getsource(kind)).body[0]
    found, last = {}, ""
    for node in body.body if isinstance(body, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = " ".join(str(node.value.value).split())
            found[last], last = text.split(";")[0].split(". ")[0].rstrip("."), ""
    return found


def script(*arguments: str) -> str:
    """The completion of a shell, as it is asked for: `eval "$(diffnea --print-completion bash)"`."""
    if len(arguments) != 1 or arguments[0] not in _SCRIPTS:
        given = " ".join(arguments) or "nothing"
        raise ValueError(f"--print-completion: {given} is given; use {', '.join(_SCRIPTS)}")
    return _SCRIPTS[arguments[0]]()


# Bash and zsh ----------------------------------------------------------------------------------------------------

# `option` is the last one before the cursor, `near` whether it is the word just before.
_BASH = """\
# Completion of diffnea for bash: eval "$(diffnea --print-completion bash)"
_diffnea() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" option="" near="" i
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{first}" -- "$word"))
        return
    fi
    for ((i = COMP_CWORD - 1; i > 1; i--)); do
        case "${{COMP_WORDS[i]}}" in -*) option="${{COMP_WORDS[i]}}"; break ;; esac
    done
    [ "$i" -eq "$((COMP_CWORD - 1))" ] && near=near
    local words=""
    case "$command $option" in
{words}
    esac
    case "$word" in -*) case "$command" in
{options}
    esac ;; esac
    [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _diffnea diffnea
"""

_ZSH = """\
#compdef diffnea
# Completion of diffnea for zsh: eval "$(diffnea --print-completion zsh)", after compinit
_diffnea() {{
    local word="${{words[CURRENT]}}" command="${{words[2]}}" option="" near="" given="" i
    if (( CURRENT == 2 )); then
        compadd -- {first}
        return
    fi
    for (( i = CURRENT - 1; i > 2; i-- )); do
        [[ "${{words[i]}}" == -* ]] && {{ option="${{words[i]}}"; break }}
    done
    (( i == CURRENT - 1 )) && near=near
    case "$command $option" in
{words}
    esac
    case "$word" in -*) case "$command" in
{options}
    esac ;; esac
    if [[ -n "$given" ]]; then compadd -- ${{=given}}; else _files; fi
}}
compdef _diffnea diffnea
"""


def _bash(template: str = _BASH, name: str = "words") -> str:
    first = " ".join([*COMMANDS, "--help", "--version", "--print-completion"])
    words, names = [], []
    for command in COMMANDS:
        found = list(options(command))
        names.append(f'    {command}) {name}="{" ".join([*(each.name for each in found), "--help"])}" ;;')
        for each in found:
            only = "" if each.takes == "several" else '[ -n "$near" ] && '
            if each.words:
                words.append(f'    "{command} {each.name}") {only}{name}="{" ".join(each.words)}" ;;')
    shells = f'    "--print-completion ") {name}="{" ".join(_SCRIPTS)}" ;;'
    return template.format(first=first, words="\n".join([*words, shells]), options="\n".join(names))


def _zsh() -> str:
    return _bash(_ZSH, "given")


# Fish ------------------------------------------------------------------------------------------------------------


def _fish() -> str:
    lines = ["# Completion of diffnea for fish: diffnea --print-completion fish | source"]
    begun = "-n __fish_use_subcommand"
    for command in COMMANDS:
        about = str(arguments_class(command).__doc__).splitlines()[0].rstrip(".")
        lines.append(f"complete -c diffnea {begun} -f -a {command} -d {_quoted(about)}")
    lines.append(f"complete -c diffnea {begun} -f -l version -d 'which version this is'")
    lines.append(f"complete -c diffnea {begun} -x -l print-completion -a '{' '.join(_SCRIPTS)}' -d 'for a shell'")
    lines.append("complete -c diffnea -s h -l help -d 'the arguments of a command'")
    for command in COMMANDS:
        seen = f"-n '__fish_seen_subcommand_from {command}'"
        for each in options(command):
            takes = {"nothing": "", "one": " -r", "several": " -r"}[each.takes]
            takes = f" -x -a '{' '.join(each.words)}'" if each.words else takes
            lines.append(f"complete -c diffnea {seen} -l {each.name[2:]}{takes} -d {_quoted(each.about)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
SHELLS = tuple(_SCRIPTS)
