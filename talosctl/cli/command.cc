#include "talosctl/cli/command.h"

#include <kj/debug.h>
#include <stdlib.h>

namespace talos::talosctl {

namespace {
// Used instead of the source file of an exception: marks a mistake on the command line.
constexpr const char* kUsageMark = "command line";
}  // namespace

Command& Command::add(kj::StringPtr childName, kj::StringPtr childSummary) {
  auto own = kj::heap<Command>();
  own->name = childName;
  own->summary = childSummary;
  own->parent = this;
  children.push_back(kj::mv(own));
  return *children.back();
}

void Command::flag(Flag flag) {
  if (flag.refused.size() > 0) flag.hidden = true;
  flags.push_back(kj::mv(flag));
}

kj::Maybe<Command&> Command::child(kj::StringPtr argument) {
  for (auto& c : children) {
    if (c->name == argument) return *c;
    for (auto& alias : c->aliases) {
      if (alias == argument) return *c;
    }
  }
  return nullptr;
}

kj::Maybe<Command&> commandAt(Command& root, kj::StringPtr path) {
  auto* at = &root;
  for (size_t begin = 0; begin < path.size();) {
    auto end = begin + path.slice(begin).findFirst(' ').orDefault(path.size() - begin);
    KJ_IF_MAYBE (child, at->child(kj::heapString(path.slice(begin, end)))) {
      at = child;
    } else {
      return nullptr;
    }
    begin = end + 1;
  }
  return *at;
}

const Command& rootOf(const Command& command) {
  return command.parent == nullptr ? command : rootOf(*command.parent);
}

kj::String Command::path() const {
  if (parent == nullptr) return kj::str(name);
  return kj::str(parent->path(), " ", name);
}

kj::Own<Command> newRoot() {
  auto root = kj::heap<Command>();
  root->name = "talosctl";
  root->summary = "Manage Talos nodes through their API";
  root->details =
      "An endpoint takes the call and passes it to every node that it is for. Both have defaults "
      "in "
      "the client configuration; see \"talosctl config\".";
  root->flag({.name = "talosconfig",
              .kind = FlagKind::kText,
              .help = "client configuration file (default $TALOSCONFIG, else ~/.talos/config, else "
                      "that of a pod's account)"});
  root->flag({.name = "context",
              .kind = FlagKind::kText,
              .help = "context to use instead of the file's current one"});
  root->flag({.name = "nodes",
              .letter = "n",
              .kind = FlagKind::kList,
              .help = "nodes to act on (default: those of the context)"});
  root->flag({.name = "endpoints",
              .letter = "e",
              .kind = FlagKind::kList,
              .help = "endpoints to connect to, instead of those of the context"});
  root->flag({.name = "timeout",
              .kind = FlagKind::kDuration,
              .help = "how long to wait for an answer, such as 45s or 2m"});
  root->flag({.name = "color",
              .kind = FlagKind::kText,
              .fallback = "auto",
              .help = "colours for states; auto: on a terminal, unless NO_COLOR is set",
              .choices = {"auto", "always", "never"}});
  root->flag({.name = "help", .letter = "h", .help = "show help"});
  return root;
}

void Invocation::wrote(kj::StringPtr file) {
  done = done.size() == 0 ? kj::str("wrote ", file) : kj::str(done, ", ", file);
}

const Invocation::Value& Invocation::value(kj::StringPtr flag) const {
  KJ_IF_MAYBE (found, values.find(flag)) {
    return *found;
  }
  KJ_FAIL_ASSERT("no such flag is declared", flag, command.name);
}

bool Invocation::on(kj::StringPtr flag) const {
  return text(flag) == "true";
}

kj::StringPtr Invocation::text(kj::StringPtr flag) const {
  auto& texts = value(flag).texts;
  return texts.empty() ? kj::StringPtr("") : kj::StringPtr(texts.back());
}

int64_t Invocation::number(kj::StringPtr flag) const {
  auto t = text(flag);
  return t.size() == 0 ? 0 : strtoll(t.cStr(), nullptr, 10);  // the parser has checked it
}

kj::ArrayPtr<const kj::String> Invocation::list(kj::StringPtr flag) const {
  return value(flag).texts;
}

kj::Duration Invocation::duration(kj::StringPtr flag) const {
  return parseDuration(text(flag)).orDefault(0 * kj::SECONDS);
}

bool Invocation::given(kj::StringPtr flag) const {
  return value(flag).given;
}

kj::Duration Invocation::deadline(kj::Duration fallback) const {
  return given("timeout") ? duration("timeout") : fallback;
}

void failUsage(kj::StringPtr message) {
  kj::throwFatalException(
      kj::Exception(kj::Exception::Type::FAILED, kUsageMark, 0, kj::str(message)));
}

bool isUsage(const kj::Exception& e) {
  return kj::StringPtr(e.getFile()) == kUsageMark;
}

kj::Maybe<kj::Duration> parseDuration(kj::StringPtr text) {
  struct Unit {
    kj::StringPtr name;
    kj::Duration length;
  };
  static constexpr Unit units[] = {{"ms"_kj, kj::MILLISECONDS},
                                   {"s"_kj, kj::SECONDS},
                                   {"m"_kj, kj::MINUTES},
                                   {"h"_kj, kj::HOURS},
                                   {"d"_kj, kj::DAYS}};
  constexpr double kMost = 1e6;  // hours; keeps the sum far from overflow
  double hours = 0;
  kj::Duration sum = 0 * kj::SECONDS;
  const char* at = text.cStr();
  if (*at == '\0') return nullptr;
  while (*at != '\0') {
    if (!('0' <= *at && *at <= '9')) return nullptr;
    double count = 0, fraction = 1;
    const char* end = at;
    for (; '0' <= *end && *end <= '9'; ++end) count = count * 10 + (*end - '0');
    if (*end == '.') {
      for (++end; '0' <= *end && *end <= '9'; ++end) count += (fraction /= 10) * (*end - '0');
    }
    size_t letters = 0;
    while ('a' <= end[letters] && end[letters] <= 'z') ++letters;
    auto name = kj::heapString(end, letters);
    if (letters == 0 && *end == '\0' && at == text.begin()) name = kj::str("s");
    bool known = false;
    for (auto& unit : units) {
      if (unit.name != name) continue;
      hours += count * double(unit.length / kj::NANOSECONDS) / double(kj::HOURS / kj::NANOSECONDS);
      if (hours > kMost) return nullptr;
      sum += int64_t(count * (unit.length / kj::NANOSECONDS)) * kj::NANOSECONDS;
      known = true;
    }
    if (!known) return nullptr;
    at = end + letters;
  }
  return sum;
}

}  // namespace talos::talosctl
