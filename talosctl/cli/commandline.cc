#include "talosctl/cli/commandline.h"

#include <errno.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>

#include "common/base/problem.h"

namespace talos::talosctl {

namespace {

// Marks a word that CLI11 must not interpret: words after "--", and words in brackets, which it
// would split like a list.
constexpr char kVerbatim = '\x01';
constexpr const char* kArguments = "arguments";

std::string unmark(const std::string& word) {
  return !word.empty() && word[0] == kVerbatim ? word.substr(1) : word;
}

// Rewrites words that CLI11 would read differently: `--flag=` (an empty value), `-f=value`, and
// everything after "--".
std::vector<std::string> normalize(kj::ArrayPtr<const kj::StringPtr> words) {
  std::vector<std::string> result;
  bool verbatim = false;
  for (auto& w : words) {
    std::string word(w.begin(), w.size());
    if (verbatim || (!word.empty() && word[0] == '[')) {
      result.push_back(kVerbatim + word);
    } else if (word == "--") {
      verbatim = true;
    } else if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      result.push_back(word.substr(0, word.size() - 1));
      result.emplace_back();
    } else if (word.size() > 2 && word[0] == '-' && word[1] != '-' && word[2] == '=') {
      result.push_back(word.substr(0, 2));
      if (word.substr(3) != "true") result.push_back(word.substr(3));
    } else {
      result.push_back(kj::mv(word));
    }
  }
  return result;
}

struct Declared {
  const Command* command;
  CLI::App* app;
  std::vector<std::pair<const Flag*, CLI::Option*>> flags = {};
  CLI::Option* arguments = nullptr;
};

void declareFlags(Declared& declared) {
  for (auto& flag : declared.command->flags) {
    std::string names = std::string("--") + flag.name.cStr();
    if (flag.letter.size() > 0) names = std::string("-") + flag.letter.cStr() + "," + names;
    CLI::Option* option;
    if (flag.kind == FlagKind::kBool) {
      option = declared.app->add_flag(names);
    } else {
      option = declared.app->add_option(names)->type_size(1)->expected(1);
      bool many = flag.kind == FlagKind::kList || flag.kind == FlagKind::kTexts;
      option->multi_option_policy(many ? CLI::MultiOptionPolicy::TakeAll
                                       : CLI::MultiOptionPolicy::TakeLast);
      option->allow_extra_args(false);
    }
    declared.flags.emplace_back(&flag, option);
  }
}

void declare(const Command& command, CLI::App& app, std::vector<Declared>& all) {
  Declared declared{&command, &app};
  app.set_help_flag();
  app.fallthrough();
  declareFlags(declared);
  if (command.children.empty()) {
    declared.arguments = app.add_option(kArguments)->expected(-1)->allow_extra_args(true);
    declared.arguments->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  } else {
    app.require_subcommand(0, 1);
  }
  all.push_back(kj::mv(declared));
  for (auto& child : command.children) {
    auto* sub = app.add_subcommand(child->name.cStr());
    for (auto& alias : child->aliases) sub->alias(alias.cStr());
    declare(*child, *sub, all);
  }
}

const Declared& find(const std::vector<Declared>& all, const CLI::App* app) {
  for (auto& d : all) {
    if (d.app == app) return d;
  }
  KJ_UNREACHABLE;
}

const Declared& find(const std::vector<Declared>& all, const Command& command) {
  for (auto& d : all) {
    if (d.command == &command) return d;
  }
  KJ_UNREACHABLE;
}

kj::Maybe<kj::String> checkValue(const Flag& flag, kj::StringPtr text) {
  auto wrong = [&](kj::StringPtr what) {
    return kj::str("invalid value \"", text, "\" for flag --", flag.name, ": ", what);
  };
  if (flag.kind == FlagKind::kBool && text != "true" && text != "false")
    return wrong("use true or false");
  if (flag.kind == FlagKind::kNumber) {
    char* end;
    errno = 0;
    strtoll(text.cStr(), &end, 10);
    if (end == text.begin() || *end != '\0' || errno != 0) return wrong("use a whole number");
  }
  if (flag.kind == FlagKind::kDuration && parseDuration(text) == nullptr) {
    return wrong("use a duration such as 45s or 1m30s");
  }
  if (!flag.choices.empty()) {
    for (auto& choice : flag.choices) {
      bool begins = choice.endsWith("=");
      if (begins ? text.startsWith(choice) && text != choice : text == choice) return nullptr;
    }
    return wrong(kj::str("must be one of ", kj::strArray(flag.choices, ", ")));
  }
  return nullptr;
}

// Returns true if the value is the default, or if there is no default and the value requests
// nothing.
bool asksForNothing(const Flag& flag, kj::StringPtr text) {
  if (flag.fallback.size() > 0) return text == flag.fallback;
  return text.size() == 0 || (flag.kind == FlagKind::kBool && text == "false");
}

// Fills in one flag. Returns the error, if any.
kj::Maybe<kj::String> take(Invocation& call, const Flag& flag, const CLI::Option& option) {
  Invocation::Value value;
  value.given = option.count() > 0;
  auto add = [&](kj::StringPtr text) {
    if (flag.kind != FlagKind::kList) {
      value.texts.add(kj::str(text));
    } else {
      for (auto& part : splitCsv(text)) value.texts.add(kj::mv(part));
    }
  };
  if (value.given) {
    for (auto& result : option.results()) add(unmark(result).c_str());
  } else if (flag.fallback.size() > 0) {
    add(flag.fallback);
  } else if (flag.kind == FlagKind::kBool) {
    add("false");
  }
  kj::Maybe<kj::String> mistake;
  if (value.given) {
    for (auto& text : value.texts) {
      KJ_IF_MAYBE (wrong, checkValue(flag, text)) {
        mistake = kj::mv(*wrong);
      } else if (flag.refused.size() > 0 && !asksForNothing(flag, text)) {
        mistake = kj::str("flag --", flag.name, " is not available: ", flag.refused);
      }
    }
  } else if (flag.required) {
    mistake = kj::str("required flag --", flag.name, " is missing");
  }
  call.values.upsert(flag.name, kj::mv(value), [](auto& own, auto&& persistent) {});
  return mistake;
}

kj::String suggestion(kj::StringPtr word, const std::vector<kj::String>& known) {
  std::vector<kj::StringPtr> candidates(known.begin(), known.end());
  KJ_IF_MAYBE (near, closest(word, kj::arrayPtr(candidates.data(), candidates.size()))) {
    return kj::str("; did you mean \"", *near, "\"?");
  }
  return kj::str();
}

// Returns true if the command, or a group that it is in, has this flag: "--tail" or "-f".
bool accepts(const Command& command, kj::StringPtr flagName) {
  for (auto* c = &command; c != nullptr; c = c->parent) {
    for (auto& flag : c->flags) {
      if (flag.refused.size() > 0) continue;
      if (flagName == kj::str("--", flag.name)) return true;
      if (flag.letter.size() > 0 && flagName == kj::str("-", flag.letter)) return true;
    }
  }
  return false;
}

// Adds the commands that declare this flag: "gen config".
void addCommandsWith(const Command& command, kj::StringPtr flagName,
                     kj::Vector<kj::String>& found) {
  for (auto& flag : command.flags) {
    if (flag.name != flagName || flag.hidden || command.hidden) continue;
    auto root = rootOf(command).name.size();
    found.add(kj::str(command.path().slice(root + 1)));
  }
  for (auto& child : command.children) addCommandsWith(*child, flagName, found);
}

constexpr kj::StringPtr kInsecure = "insecure"_kj;

kj::String unknownFlag(const Command& command, kj::StringPtr word) {
  std::vector<kj::String> known;
  for (auto* c = &command; c != nullptr; c = c->parent) {
    for (auto& flag : c->flags) {
      if (!flag.hidden) known.push_back(kj::str("--", flag.name));
    }
  }
  auto name = word;
  kj::String cut;
  KJ_IF_MAYBE (at, word.findFirst('=')) {
    name = cut = kj::heapString(word.slice(0, *at));
  }
  if (accepts(command, name)) {
    return kj::str("flag ", name, " stands before its command; write \"", command.path(), " ", name,
                   "\"");
  }
  if (name == kj::str("--", kInsecure)) {
    kj::Vector<kj::String> others;
    // With the same name `image cache-create` has a flag about registries.
    addCommandsWith(rootOf(command), "cert-fingerprint", others);
    return kj::str("flag ", name, " is not available for \"", command.path(),
                   "\": a node without a config answers ", kj::strArray(others, ", "), " only");
  }
  return kj::str("unknown flag ", name, " for \"", command.path(), "\"", suggestion(name, known));
}

kj::String unknownCommand(const Command& group, kj::StringPtr word) {
  std::vector<kj::String> known;
  for (auto& c : group.children) {
    if (c->hidden) continue;
    known.push_back(kj::str(c->name));
    for (auto& alias : c->aliases) known.push_back(kj::str(alias));
  }
  return kj::str("unknown command \"", word, "\" for \"", group.path(), "\"",
                 suggestion(word, known));
}

kj::Maybe<kj::String> checkArguments(const Command& command, size_t count) {
  if (command.least <= count && count <= command.most) return nullptr;
  auto range = command.least == command.most  ? kj::str(command.least)
               : command.most == kj::maxValue ? kj::str("at least ", command.least)
               : command.least == 0           ? kj::str("at most ", command.most)
                                              : kj::str(command.least, " to ", command.most);
  return kj::str("\"", command.path(), "\" accepts ", range, " arg(s)",
                 command.arguments.size() > 0 ? kj::str(" (", command.arguments, ")") : kj::str(),
                 ", received ", count);
}

}  // namespace

kj::Vector<kj::String> splitCsv(kj::StringPtr text) {
  kj::Vector<kj::String> fields;
  kj::Vector<char> field;
  bool quoted = false;
  auto finish = [&]() {
    fields.add(kj::heapString(field.asPtr()));
    field.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field.add('"');
      ++i;
    } else if (c == '"' && (quoted || field.empty())) {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      finish();
    } else {
      field.add(c);
    }
  }
  if (text.size() > 0) finish();
  return fields;
}

Parsed parseCommandLine(Dependencies& deps, const Command& root,
                        kj::ArrayPtr<const kj::StringPtr> words) {
  CLI::App app;
  std::vector<Declared> all;
  declare(root, app, all);

  Parsed parsed;
  auto wrong = [&](kj::String mistake) {
    if (parsed.mistake == nullptr) parsed.mistake = kj::mv(mistake);
  };
  kj::Maybe<kj::String> missingValue;
  bool extras = false;
  auto normal = normalize(words);
  try {
    app.parse(std::vector<std::string>(normal.rbegin(), normal.rend()));
  } catch (const CLI::ExtrasError&) {
    extras = true;
  } catch (const CLI::ArgumentMismatch&) {
    missingValue = kj::str("flag ", normal.empty() ? "" : normal.back().c_str(), " needs a value");
  } catch (const CLI::ParseError& e) {
    missingValue = kj::str("not a valid command line: ", e.what());
  }

  const CLI::App* meant = &app;
  while (!meant->get_subcommands().empty()) meant = meant->get_subcommands().front();
  auto& declared = find(all, meant);
  auto& command = *declared.command;
  parsed.call = kj::heap<Invocation>(deps, root, command);
  KJ_IF_MAYBE (m, missingValue) {
    wrong(kj::mv(*m));
  }
  if (extras && !command.anyFlags) {
    for (auto& word : app.remaining(true)) {
      auto shown = unmark(word);
      if (shown.size() == word.size() && word.starts_with("-")) {
        wrong(unknownFlag(command, shown.c_str()));
      } else {
        wrong(unknownCommand(command, shown.c_str()));
      }
    }
  }
  for (auto* c = &command; c != nullptr; c = c->parent) {
    for (auto& [flag, option] : find(all, *c).flags) {
      KJ_IF_MAYBE (mistake, take(*parsed.call, *flag, *option)) {
        wrong(kj::mv(*mistake));
      }
    }
  }
  parsed.help = parsed.call->on("help");
  if (declared.arguments != nullptr) {
    for (auto& result : declared.arguments->results())
      parsed.call->arguments.add(kj::str(unmark(result).c_str()));
    if (command.run != nullptr) {
      KJ_IF_MAYBE (mistake, checkArguments(command, parsed.call->arguments.size())) {
        wrong(kj::mv(*mistake));
      }
    }
  }
  return parsed;
}

}  // namespace talos::talosctl
