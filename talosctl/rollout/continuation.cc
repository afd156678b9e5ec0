#include "talosctl/rollout/continuation.h"

#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

kj::Maybe<const Flag&> declaredFlag(const Command& command, kj::StringPtr name) {
  for (auto* at = &command; at != nullptr; at = at->parent) {
    for (auto& flag : at->flags) {
      if (flag.name == name) return flag;
    }
  }
  return nullptr;
}

// Quotes an element of a list as CSV, if necessary.
kj::String csvQuoted(kj::StringPtr text) {
  if (text.findFirst(',') == nullptr && text.findFirst('"') == nullptr) return kj::str(text);
  kj::Vector<char> quoted;
  for (char c : text) {
    if (c == '"') quoted.add('"');
    quoted.add(c);
  }
  return kj::str('"', quoted, '"');
}

void addFlag(kj::Vector<kj::String>& words, const Flag& flag,
             kj::ArrayPtr<const kj::String> values) {
  auto add = [&](kj::StringPtr value) {
    words.add(shellQuoted(kj::str("--", flag.name, "=", value)));
  };
  switch (flag.kind) {
    case FlagKind::kBool: {
      bool on = values.back() == "true";
      return void(words.add(kj::str("--", flag.name, on ? "" : "=false")));
    }
    case FlagKind::kTexts:
      for (auto& value : values) add(value);
      return;
    case FlagKind::kList: {
      auto list = KJ_MAP(value, values) {
        return csvQuoted(value);
      };
      return add(kj::strArray(list, ","));
    }
    default:
      return add(values.back());  // the last one counts
  }
}

}  // namespace

kj::String commandLineOf(const Invocation& call, kj::ArrayPtr<const ChangedFlag> changed) {
  kj::Vector<kj::String> words;
  words.add(call.command.path());
  for (auto& argument : call.arguments) words.add(shellQuoted(argument));
  for (auto& entry : call.values) {
    kj::Maybe<kj::StringPtr> other;
    for (auto& one : changed) {
      if (one.name == entry.key) other = one.value;
    }
    auto& flag = KJ_ASSERT_NONNULL(declaredFlag(call.command, entry.key));
    KJ_IF_MAYBE (value, other) {
      auto values = kj::arr(kj::str(*value));
      addFlag(words, flag, values);
    } else if (entry.value.given) {
      addFlag(words, flag, entry.value.texts);
    }
  }
  return kj::strArray(words, " ");
}

kj::String continueWith(const Invocation& call, kj::ArrayPtr<const ChangedFlag> changed) {
  return kj::str("continue with: ", commandLineOf(call, changed));
}

void declareRollout(Command& command) {
  command.interrupt = Interrupt::kIsCommands;
}

kj::Promise<int> untilInterrupted(Invocation& call, kj::Promise<int> run,
                                  kj::Function<kj::String()> next) {
  return run.exclusiveJoin(call.interrupted().then([&call, next = kj::mv(next)]() mutable {
    auto line = next();
    call.err(line.size() > 0 ? kj::str("interrupted\n", line, "\n") : kj::str("interrupted\n"));
    return kInterruptedStatus;
  }));
}

kj::Promise<int> untilInterrupted(Invocation& call, kj::Promise<int> run) {
  return untilInterrupted(call, kj::mv(run), [&call]() {
    bool dryRun = call.declared("dry-run") && call.on("dry-run");
    return dryRun ? kj::String() : continueWith(call);
  });
}

}  // namespace talos::talosctl
