#include "talosctl/cli/completion.h"

#include <kj/debug.h>

namespace talos::talosctl {

namespace {

constexpr kj::StringPtr kConnection[] = {"nodes"_kj, "endpoints"_kj, "context"_kj,
                                         "talosconfig"_kj};

struct FlagSource {
  kj::StringPtr flag;
  Source source;
};
constexpr FlagSource kFlagSources[] = {{"nodes"_kj, Source::kNodes},
                                       {"endpoints"_kj, Source::kEndpoints},
                                       {"context"_kj, Source::kContexts},
                                       {"talosconfig"_kj, Source::kLocalFiles},
                                       {"file"_kj, Source::kLocalFiles},
                                       {"patch-file"_kj, Source::kLocalFiles},
                                       {"config"_kj, Source::kLocalFiles},
                                       {"output-dir"_kj, Source::kLocalFiles},
                                       {"output-file"_kj, Source::kLocalFiles},
                                       {"with-secrets"_kj, Source::kLocalFiles},
                                       {"recover-from"_kj, Source::kLocalFiles},
                                       {"input-dir"_kj, Source::kLocalFiles},
                                       {"image"_kj, Source::kLocalFiles}};
// Flags with this name that other commands use for something else.
constexpr kj::StringPtr kClusterCommands = "talosctl cluster "_kj, kClusterFlag = "name"_kj;

// The source of an argument's candidates, by the path of the command and the number of the
// argument.
struct ArgumentSource {
  kj::StringPtr command;
  size_t index;
  Source source;
};
constexpr ArgumentSource kArgumentSources[] = {
    {"talosctl get"_kj, 0, Source::kTypes},
    {"talosctl get"_kj, 1, Source::kResourceIds},
    {"talosctl edit"_kj, 0, Source::kTypes},
    {"talosctl edit"_kj, 1, Source::kResourceIds},
    {"talosctl patch"_kj, 0, Source::kTypes},
    {"talosctl patch"_kj, 1, Source::kResourceIds},
    {"talosctl restart"_kj, 0, Source::kContainers},
    {"talosctl token revoke"_kj, 0, Source::kTokens},
    {"talosctl crashes"_kj, 0, Source::kCrashes},
    {"talosctl debug log-level"_kj, 0, Source::kServices},
    {"talosctl debug cores"_kj, 0, Source::kServices},
    {"talosctl debug stack"_kj, 0, Source::kServices},
    {"talosctl debug profile"_kj, 0, Source::kServices},
    {"talosctl service"_kj, 0, Source::kServices},
    {"talosctl logs"_kj, 0, Source::kLogs},
    {"talosctl list"_kj, 0, Source::kNodeFiles},
    {"talosctl usage"_kj, kj::maxValue, Source::kNodeFiles},
    {"talosctl read"_kj, 0, Source::kNodeFiles},
    {"talosctl copy"_kj, 0, Source::kNodeFiles},
    {"talosctl copy"_kj, 1, Source::kLocalFiles},
    {"talosctl config context"_kj, 0, Source::kContexts},
    {"talosctl config remove"_kj, 0, Source::kContexts},
    {"talosctl config rename"_kj, 0, Source::kContexts},
    {"talosctl config node"_kj, kj::maxValue, Source::kNodes},
    {"talosctl config merge"_kj, kj::maxValue, Source::kLocalFiles},
    {"talosctl etcd snapshot"_kj, 0, Source::kLocalFiles},
    {"talosctl kubeconfig"_kj, 0, Source::kLocalFiles}};

kj::Maybe<const Command&> childOf(const Command& command, kj::StringPtr word) {
  for (auto& child : command.children) {
    if (child->name == word) return *child;
    for (auto& alias : child->aliases) {
      if (alias == word) return *child;
    }
  }
  return nullptr;
}

// Finds the flag of "--output", of "-o", or of the name in "--output=json".
kj::Maybe<const Flag&> flagOf(const Command& command, kj::StringPtr word) {
  for (auto* at = &command; at != nullptr; at = at->parent) {
    for (auto& flag : at->flags) {
      if (word == kj::str("--", flag.name)) return flag;
      if (flag.letter.size() > 0 && word == kj::str("-", flag.letter)) return flag;
    }
  }
  return nullptr;
}

// Follows the words along the tree of commands.
class Completer {
 public:
  explicit Completer(const Command& root) : at(&root) {}

  Completion complete(kj::ArrayPtr<const kj::StringPtr> words) {
    result.typed = kj::str(words.size() == 0 ? ""_kj : words.back());
    for (size_t i = 0; i + 1 < words.size(); ++i) pass(words[i]);
    offer();
    return kj::mv(result);
  }

 private:
  const Command* at;
  Completion result;
  bool flagsEnded = false;
  kj::Maybe<const Flag&> pending;  // flag whose value comes next

  void pass(kj::StringPtr word) {
    KJ_IF_MAYBE (flag, pending) {
      keep(*flag, word);
      pending = nullptr;
      return;
    }
    if (!flagsEnded && word == "--") {
      flagsEnded = true;
    } else if (!flagsEnded && word.startsWith("-") && word.size() > 1) {
      passFlag(word);
    } else KJ_IF_MAYBE (child, childOf(*at, word)) {
      at = child;
    } else {
      result.arguments.add(kj::str(word));
    }
  }

  void passFlag(kj::StringPtr word) {
    KJ_IF_MAYBE (equal, word.findFirst('=')) {
      KJ_IF_MAYBE (flag, flagOf(*at, kj::heapString(word.slice(0, *equal)))) {
        keep(*flag, word.slice(*equal + 1));
      }
      return;
    }
    KJ_IF_MAYBE (flag, flagOf(*at, word)) {
      if (flag->kind != FlagKind::kBool) pending = *flag;
      if (flag->name == "kubernetes") result.kubernetes = true;
    }
  }

  void keep(const Flag& flag, kj::StringPtr value) {
    for (auto name : kConnection) {
      if (flag.name == name) result.connection.add(Completion::FlagValue{name, kj::str(value)});
    }
  }

  void offer() {
    KJ_IF_MAYBE (flag, pending) return offerValues(*flag);
    if (!flagsEnded && result.typed.startsWith("--")) {
      KJ_IF_MAYBE (equal, result.typed.findFirst('=')) {
        auto name = kj::heapString(result.typed.slice(0, *equal));
        KJ_IF_MAYBE (flag, flagOf(*at, name)) {
          result.ahead = kj::str(name, "=");
          result.typed = kj::str(result.typed.slice(*equal + 1));
          offerValues(*flag);
        }
        return;
      }
    }
    if (!flagsEnded && result.typed.startsWith("-")) return offerFlags();
    if (!at->children.empty()) return offerCommands();
    offerArguments();
  }

  void add(kj::StringPtr word, kj::StringPtr help = "") {
    if (!word.startsWith(result.typed)) return;
    result.candidates.add(Candidate{kj::str(result.ahead, word), kj::str(help)});
  }

  void offerValues(const Flag& flag) {
    // Only the last element of a list is completed.
    if (flag.kind == FlagKind::kList) {
      KJ_IF_MAYBE (comma, result.typed.findLast(',')) {
        result.ahead = kj::str(result.ahead, result.typed.slice(0, *comma + 1));
        result.typed = kj::str(result.typed.slice(*comma + 1));
      }
    }
    for (auto& choice : flag.choices) add(choice);
    if (flag.kind == FlagKind::kBool) add("true"), add("false");
    for (auto& known : kFlagSources) {
      if (known.flag == flag.name && flag.choices.empty()) result.source = known.source;
    }
    if (flag.name == kClusterFlag && at->path().startsWith(kClusterCommands)) {
      result.source = Source::kClusters;
    }
  }

  void offerFlags() {
    for (auto* c = at; c != nullptr; c = c->parent) {
      for (auto& flag : c->flags) {
        if (!flag.hidden) add(kj::str("--", flag.name), flag.help);
      }
    }
  }

  // Offers aliases only if no command begins with the typed text.
  void offerCommands() {
    for (auto& child : at->children) {
      if (!child->hidden) add(child->name, child->summary);
    }
    if (result.candidates.size() > 0) return;
    for (auto& child : at->children) {
      for (auto& alias : child->aliases) {
        if (!child->hidden) add(alias, child->summary);
      }
    }
  }

  void offerArguments() {
    auto& choices = at->argumentChoices;
    auto arguments = result.arguments.size();
    if (arguments < choices.size()) {
      for (auto& choice : choices[arguments]) add(choice);
    }
    auto path = at->path();
    for (auto& known : kArgumentSources) {
      bool matches = known.index == arguments || known.index == kj::maxValue;
      if (matches && path == known.command) result.source = known.source;
    }
    if (result.source == Source::kLogs && result.kubernetes) result.source = Source::kContainers;
  }
};

// Bash also splits words at "=" and ":". The script joins words that stand together; since readline
// replaces only the text after the last "=" or ":", each offer begins there. The script sends words
// without their quotes and quotes the candidates, because names come from a node and bash must not
// execute them. No blank follows a candidate that ends with "/" or "=", because more text follows
// it.
constexpr kj::StringPtr kBash =
    R"sh(# bash completion for talosctl; load it with: source <(talosctl completion bash)
_talosctl_unquote() {
  local text=$1 c i
  plain= quote=
  for ((i = 0; i < ${#text}; ++i)); do
    c=${text:i:1}
    if [[ $c == \\ && $quote != \' ]]; then
      i=$((i + 1))
      [[ $quote == \" && ${text:i:1} != [\"\\\$\`] ]] && plain+=\\
      plain+=${text:i:1}
    elif [[ -z $quote && $c == [\"\'] ]]; then quote=$c
    elif [[ -n $quote && $c == "$quote" ]]; then quote=
    else plain+=$c
    fi
  done
}
_talosctl_quote() {
  local text=$1 c i
  quoted=
  if [[ -z $quote ]]; then
    printf -v quoted %q "$text"
    return
  fi
  for ((i = 0; i < ${#text}; ++i)); do
    c=${text:i:1}
    if [[ $quote == \' && $c == \' ]]; then quoted+="'\\''"
    elif [[ $quote == \" && $c == [\"\\\$\`] ]]; then quoted+=\\$c
    else quoted+=$c
    fi
  done
}
_talosctl() {
  local IFS=$'\n' rest=${COMP_LINE:0:COMP_POINT} line blank part word= ahead= i plain quote quoted
  local -a words=()
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    blank=${rest%%[![:blank:]]*} rest=${rest#"${rest%%[![:blank:]]*}"}
    part=${COMP_WORDS[i]}
    ((i == COMP_CWORD)) && part=$rest
    rest=${rest#"$part"}
    if ((i > 0)) && [[ -n $blank ]]; then
      _talosctl_unquote "$word"
      words+=("$plain") word= ahead=
    fi
    [[ $part == *[!:=]* ]] && ahead=$word || ahead=$word$part
    word+=$part
  done
  _talosctl_unquote "$ahead"
  ahead=$plain
  _talosctl_unquote "$word"
  words+=("$plain")
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$part")
      compopt -o filenames 2>/dev/null
      continue
    fi
    line=${line%%$'\t'*}
    [[ $line == */ || $line == *= ]] && compopt -o nospace 2>/dev/null
    _talosctl_quote "${line#"$ahead"}"
    COMPREPLY+=("$quoted")
  done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _talosctl talosctl
)sh"_kj;

constexpr kj::StringPtr kZsh = R"sh(#compdef talosctl
# zsh completion for talosctl; load it with: source <(talosctl completion zsh)
_talosctl() {
  local line
  local -a plain described open
  for line in ${(f)"$(${words[1]} __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)"}; do
    if [[ $line == :files ]]; then _files
    elif [[ $line == */ || $line == *= ]]; then open+=($line)
    elif [[ $line == *$'\t'* ]]; then described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    else plain+=($line)
    fi
  done
  (( $#described )) && _describe 'talosctl' described
  (( $#plain )) && compadd -a plain
  (( $#open )) && compadd -S '' -a open
  return 0
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
if [[ $funcstack[1] == _talosctl ]]; then _talosctl "$@"; else compdef _talosctl talosctl; fi
)sh"_kj;

constexpr kj::StringPtr kFish =
    R"sh(# fish completion for talosctl; load it with: talosctl completion fish | source
function __talosctl_complete
  set -l words (commandline -opc) (commandline -ct)
  for line in ($words[1] __complete -- $words[2..-1] 2>/dev/null)
    if test "$line" = :files
      __fish_complete_path (commandline -ct)
    else
      printf '%s\n' $line
    end
  end
end
complete -c talosctl -f -a '(__talosctl_complete)'
)sh"_kj;

constexpr kj::StringPtr kPowershell =
    R"sh(# PowerShell completion for talosctl; load it with: talosctl completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName talosctl -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition } |
    ForEach-Object { if ($null -ne $_.Value) { $_.Value } else { $_.Extent.Text } })
  $program = $words[0]
  $typed = @($words | Select-Object -Skip 1)
  if ($wordToComplete -eq '') { $typed += '' }
  & $program __complete -- @typed 2>$null | ForEach-Object {
    $word, $help = $_ -split "`t", 2
    if ($word -ne ':files') {
      if (-not $help) { $help = $word }
      $text = $word  # names are a node's, and none may run
      if ($word -notmatch '\A[A-Za-z0-9_./:,=-]+\z') {
        $text = "'" + [System.Management.Automation.Language.CodeGeneration]::EscapeSingleQuotedStringContent($word) + "'"
      }
      [System.Management.Automation.CompletionResult]::new($text, $word, 'ParameterValue', $help)
    }
  }
}
)sh"_kj;

}  // namespace

Completion completionFor(const Command& root, kj::ArrayPtr<const kj::StringPtr> words) {
  return Completer(root).complete(words);
}

kj::String completionScript(kj::StringPtr shell) {
  if (shell == "bash") return kj::str(kBash);
  if (shell == "zsh") return kj::str(kZsh);
  if (shell == "fish") return kj::str(kFish);
  if (shell == "powershell") return kj::str(kPowershell);
  KJ_FAIL_REQUIRE("there is no script for this shell", shell);
}

}  // namespace talos::talosctl
