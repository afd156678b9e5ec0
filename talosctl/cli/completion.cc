#include "talosctl/cli/completion.h"

namespace talos::talosctl {

namespace {

// Everything that the script asks about one command, keyed by its path without the program's name.
struct Entry {
  kj::String path;               // "config endpoint"; empty for the root
  kj::Vector<kj::String> words;  // child commands and aliases, or choices of the first argument
  kj::Vector<kj::String> flags;  // "--follow" "-f"
  kj::Vector<kj::String> resolutions;  // "word=path" for each child and alias
};

void collect(const Command& command, kj::StringPtr path, kj::Vector<Entry>& entries) {
  Entry entry;
  entry.path = kj::str(path);
  auto below = [&](kj::StringPtr name) {
    return path.size() == 0 ? kj::str(name) : kj::str(path, " ", name);
  };
  for (auto& child : command.children) {
    if (child->hidden) continue;
    entry.words.add(kj::str(child->name));
    entry.resolutions.add(kj::str(child->name, "=", below(child->name)));
    for (auto& alias : child->aliases) {
      entry.words.add(kj::str(alias));
      entry.resolutions.add(kj::str(alias, "=", below(child->name)));
    }
  }
  for (auto& choices : command.argumentChoices) {
    for (auto& choice : choices) entry.words.add(kj::str(choice));
  }
  for (auto* c = &command; c != nullptr; c = c->parent) {
    for (auto& flag : c->flags) {
      if (flag.hidden) continue;
      entry.flags.add(kj::str("--", flag.name));
      if (flag.letter.size() > 0) entry.flags.add(kj::str("-", flag.letter));
    }
  }
  entries.add(kj::mv(entry));
  for (auto& child : command.children) {
    if (!child->hidden) collect(*child, below(child->name), entries);
  }
}

// "--output" "-o"
kj::Vector<kj::String> spellings(const Flag& flag) {
  kj::Vector<kj::String> names;
  names.add(kj::str("--", flag.name));
  if (flag.letter.size() > 0) names.add(kj::str("-", flag.letter));
  return names;
}

// Every flag of the command itself that takes a value, as patterns "path:--flag", and the lines
// that offer the values of those that have a fixed set.
void collectValues(const Command& command, kj::StringPtr path, kj::Vector<kj::String>& patterns,
                   kj::Vector<kj::String>& offers) {
  for (auto& flag : command.flags) {
    if (flag.kind == FlagKind::kBool) continue;
    auto own = KJ_MAP(name, spellings(flag)) {
      return kj::str("'", path, ":", name, "'");
    };
    auto all = kj::strArray(own, "|");
    if (!flag.choices.empty()) {
      offers.add(kj::str("    ", all, ") COMPREPLY=($(compgen -W '",
                         kj::strArray(flag.choices, " "), "' -- \"$current\")); return ;;\n"));
    }
    patterns.add(kj::mv(all));
  }
  for (auto& child : command.children) {
    if (child->hidden) continue;
    auto below = path.size() == 0 ? kj::str(child->name) : kj::str(path, " ", child->name);
    collectValues(*child, below, patterns, offers);
  }
}

}  // namespace

kj::String bashCompletion(const Command& root) {
  kj::Vector<Entry> entries;
  collect(root, "", entries);
  kj::Vector<kj::String> persistent, valued, offers;
  for (auto& flag : root.flags) {
    if (flag.kind == FlagKind::kBool) continue;
    for (auto& name : spellings(flag)) persistent.add(kj::mv(name));
  }
  collectValues(root, "", valued, offers);

  kj::Vector<kj::String> t;
  t.add(kj::str(
      "# bash completion for ", root.name, "; load it with: source <(", root.name,
      " completion bash)\n_", root.name,
      "() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local path='' words='' flags='' word i skip=0\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    if ((skip)); then skip=0; continue; fi\n"
      "    case $word in\n      ",
      kj::strArray(persistent, "|"),
      ") skip=1; continue ;;\n    esac\n    case \"$path:$word\" in\n      ",
      kj::strArray(valued, "|\\\n      "), ") skip=1; continue ;;\n",
      "    esac\n    if [[ $word == -* ]]; then continue; fi\n    case \"$path/$word\" in\n"));
  for (auto& e : entries) {
    for (auto& r : e.resolutions) {
      auto at = KJ_ASSERT_NONNULL(r.findFirst('='));
      t.add(
          kj::str("      '", e.path, "/", r.slice(0, at), "') path='", r.slice(at + 1), "' ;;\n"));
    }
  }
  t.add(kj::str("    esac\n  done\n  case \"$path:$previous\" in\n", kj::strArray(offers, ""),
                "    *:--talosconfig|*:--file|*:--output-dir) "
                "COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n"
                "  esac\n  case $path in\n"));
  for (auto& e : entries) {
    t.add(kj::str("    '", e.path, "') words='", kj::strArray(e.words, " "), "' flags='",
                  kj::strArray(e.flags, " "), "' ;;\n"));
  }
  t.add(
      kj::str("  esac\n"
              "  if [[ $current == -* ]]; then words=$flags; fi\n"
              "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
              "}\ncomplete -o default -F _",
              root.name, " ", root.name, "\n"));
  return kj::strArray(t, "");
}

kj::String zshCompletion(const Command& root) {
  // zsh runs the same function through its own bash compatibility.
  return kj::str(
      "#compdef ", root.name, "\n# zsh completion for ", root.name, "; load it with: source <(",
      root.name,
      " completion zsh)\n(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
      "autoload -Uz bashcompinit && bashcompinit\n",
      bashCompletion(root));
}

}  // namespace talos::talosctl
