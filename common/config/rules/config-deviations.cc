// Deviations from the format in published configs: keys of later versions, and mistakes that are
// understood and corrected with a warning. Both are tables with a row each.

#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

using codec::Entry;
using codec::YamlNode;
using codec::YamlStream;

using enum codec::LaterTreatment;

constexpr codec::LaterKey kLaterKeys[] = {
#include "common/config/rules/later-keys.inc"
};

const YamlNode* valueAt(const YamlNode* node, kj::StringPtr key) {
  if (node == nullptr) return nullptr;
  for (auto& entry : node->entries) {
    if (entry.key == key) return entry.value;
  }
  return nullptr;
}

// Returns true for an absent value, too.
bool isFalse(const YamlNode* value) {
  if (value == nullptr || value->kind == YamlNode::Kind::kNull) return true;
  return !codec::parseBool(value->text).orDefault(true);
}

bool isNotEnabled(const YamlNode& document) {
  return isFalse(valueAt(&document, "enabled"));
}

// Returns true for an interval of 0, too.
bool hasNoInterval(const YamlNode& document) {
  auto* value = valueAt(&document, "interval");
  if (value == nullptr || value->kind == YamlNode::Kind::kNull) return true;
  return parseDuration(value->text).orDefault(1 * kj::SECONDS) == 0 * kj::SECONDS;
}

bool isNotIsolated(const YamlNode& document) {
  return isFalse(valueAt(&document, "workloadIsolation"));
}

bool skipsAllImages(const YamlNode& document) {
  auto* rules = valueAt(&document, "rules");
  if (rules == nullptr) return true;
  for (auto* rule : rules->items) {
    if (isFalse(valueAt(rule, "skip"))) return false;
  }
  return rules->kind == YamlNode::Kind::kSequence || rules->kind == YamlNode::Kind::kNull;
}

constexpr LaterKind kLaterKinds[] = {
#include "common/config/rules/later-kinds.inc"
};

enum class Treatment {
  kRename,     // key -> other
  kMoveBelow,  // key -> other.key
  kListOfOne,  // the mapping at key is the one item of a list
  kAdopt,      // siblings with the key `other` belong below key, which is empty
  kRewrite,    // the text at key, or at each item of the list at key
};

// Returns the text that was meant; nullptr if the text is right.
using Rewrite = kj::Maybe<kj::String> (*)(kj::StringPtr);

struct Deviation {
  kj::StringPtr
      where;  // a mapping: keys, "[]" for all items and "*" for all keys, with '/' between
  kj::StringPtr key;
  Treatment treatment;
  kj::StringPtr other = ""_kj;
  Rewrite rewrite = nullptr;
  bool silent = false;  // means the same either way
};

// Returns Linux' name of the loopback link for the name on other systems.
kj::Maybe<kj::String> linkOfLinux(kj::StringPtr name) {
  if (name == "lo0") return kj::str("lo");
  return nullptr;
}

// Corrects 209.202.254.14.8172, where a dot precedes the port.
kj::Maybe<kj::String> portBehindColon(kj::StringPtr endpoint) {
  size_t dots = 0, last = 0;
  for (size_t i = 0; i < endpoint.size(); ++i) {
    if (endpoint[i] != '.' && (endpoint[i] < '0' || endpoint[i] > '9')) return nullptr;
    if (endpoint[i] == '.') ++dots, last = i;
  }
  if (dots != 4) return nullptr;
  return kj::str(endpoint.slice(0, last), ":", endpoint.slice(last + 1));
}

kj::Maybe<kj::String> withoutSlash(kj::StringPtr url) {
  auto scheme = url.startsWith("https://") ? 8 : url.startsWith("http://") ? 7 : 0;
  if (scheme == 0 || !url.endsWith("/") || url.size() <= size_t(scheme) + 1) return nullptr;
  for (char c : url.slice(scheme, url.size() - 1)) {
    if (c == '/') return nullptr;
  }
  return kj::str(url.slice(0, url.size() - 1));
}

constexpr auto kInterface = "machine/network/interfaces/[]"_kj;
constexpr auto kPeers = "machine/network/interfaces/[]/wireguard/peers/[]"_kj;
constexpr auto kMirror = "machine/registries/mirrors/*"_kj;
constexpr auto kKeys = "machine/systemDiskEncryption/*/keys/[]"_kj;

// In this order: a later row reads the corrections of an earlier one.
constexpr Deviation kDeviations[] = {
    {"machine"_kj, "systemDisksEncryption"_kj, Treatment::kRename, "systemDiskEncryption"_kj},
    {"machine"_kj, "state"_kj, Treatment::kMoveBelow, "systemDiskEncryption"_kj},
    {"machine"_kj, "ephemeral"_kj, Treatment::kMoveBelow, "systemDiskEncryption"_kj},
    {kKeys, "keySlot"_kj, Treatment::kRename, "slot"_kj},
    {"machine/network/interfaces/[]/wireguard"_kj, "peers"_kj, Treatment::kListOfOne},
    {kPeers, "endpoint"_kj, Treatment::kRewrite, ""_kj, portBehindColon},
    {kInterface, "interface"_kj, Treatment::kRewrite, ""_kj, linkOfLinux},
    {"machine/registries"_kj, "mirrors"_kj, Treatment::kAdopt, "endpoints"_kj},
    {kMirror, "endpoints"_kj, Treatment::kRewrite, ""_kj, withoutSlash, true},
};

// Place of a mapping in the document; it becomes text only for a warning, which few documents need.
struct Position {
  const Position* above = nullptr;
  kj::StringPtr key;
  kj::Maybe<size_t> index;

  kj::String toString() const {
    if (above == nullptr) return kj::str();
    auto path = above->toString();
    KJ_IF_MAYBE (i, index) return kj::str(path, "[", *i, "]");
    return path.size() == 0 ? kj::str(key) : kj::str(path, ".", key);
  }
};

class Corrector {
 public:
  Corrector(YamlStream& stream, kj::StringPtr file, Problems& problems)
      : stream(stream), file(file), problems(problems) {}

  // Applies the row to all mappings at `where`, which is below `node`, which is at `position`.
  void apply(const Deviation& row, kj::StringPtr where, const YamlNode& node,
             const Position& position) {
    if (where.size() == 0) {
      if (node.kind == YamlNode::Kind::kMapping) treat(row, stream.edit(node), position);
      return;
    }
    size_t end = where.findFirst('/').orDefault(where.size());
    auto step = where.slice(0, end);
    auto rest = where.slice(end < where.size() ? end + 1 : end);
    if (step == "[]"_kj.asArray()) {
      for (size_t i = 0; i < node.items.size(); ++i)
        apply(row, rest, *node.items[i], {&position, nullptr, i});
      return;
    }
    for (auto& entry : node.entries) {
      if (step == "*"_kj.asArray() || step == entry.key.asArray())
        apply(row, rest, *entry.value, {&position, entry.key, nullptr});
    }
  }

 private:
  YamlStream& stream;
  kj::StringPtr file;
  Problems& problems;
  size_t count = 0;

  static kj::String below(const Position& position, kj::StringPtr key) {
    return Position{&position, key, nullptr}.toString();
  }

  void report(Problem::Severity severity, codec::Place place, kj::String path, kj::String message) {
    // An error is never lost among warnings.
    if (count++ >= codec::kMaxProblems && severity == Problem::Severity::kWarning) return;
    auto& problem = problems.add();
    problem.severity = severity;
    problem.file = kj::str(file);
    problem.line = place.line;
    problem.column = place.column;
    problem.path = kj::mv(path);
    problem.message = kj::mv(message);
  }
  void warn(codec::Place place, kj::String path, kj::String message) {
    report(Problem::Severity::kWarning, place, kj::mv(path), kj::mv(message));
  }

  static kj::Maybe<Entry&> find(YamlNode& mapping, kj::StringPtr key) {
    for (auto& entry : mapping.entries) {
      if (entry.key == key) return entry;
    }
    return nullptr;
  }

  static Entry take(YamlNode& mapping, kj::StringPtr key) {
    kj::Vector<Entry> kept;
    kj::Maybe<Entry> taken;
    for (auto& entry : mapping.entries) {
      if (entry.key == key)
        taken = kj::mv(entry);
      else
        kept.add(kj::mv(entry));
    }
    mapping.entries = kj::mv(kept);
    return kj::mv(KJ_ASSERT_NONNULL(taken));
  }

  void treat(const Deviation& row, YamlNode& mapping, const Position& position) {
    KJ_IF_MAYBE (entry, find(mapping, row.key)) {
      switch (row.treatment) {
        case Treatment::kRename:
          return rename(row, mapping, position);
        case Treatment::kMoveBelow:
          return moveBelow(row, mapping, position);
        case Treatment::kListOfOne:
          return listOfOne(row, *entry, position);
        case Treatment::kAdopt:
          return adopt(row, mapping, position);
        case Treatment::kRewrite:
          return rewrite(row, *entry, position);
      }
    }
  }

  void rename(const Deviation& row, YamlNode& mapping, const Position& position) {
    auto entry = take(mapping, row.key);
    KJ_IF_MAYBE (other, find(mapping, row.other)) {
      bool same = entry.value->kind == YamlNode::Kind::kScalar &&
                  other->value->kind == YamlNode::Kind::kScalar &&
                  entry.value->text == other->value->text;
      if (!same) {
        report(Problem::Severity::kError, entry.place, below(position, row.key),
               kj::str("this is ", row.other, " by another name, and their values differ"));
        return;
      }
      warn(entry.place, below(position, row.key),
           kj::str("this is ", row.other, " by another name"));
      return;
    }
    warn(entry.place, below(position, row.key), kj::str("this is read as ", row.other));
    entry.key = kj::str(row.other);
    mapping.entries.add(kj::mv(entry));
  }

  void moveBelow(const Deviation& row, YamlNode& mapping, const Position& position) {
    auto entry = take(mapping, row.key);
    auto target = kj::str(row.other, ".", row.key);
    auto conflict = [&]() {
      report(Problem::Severity::kError, entry.place, below(position, row.key),
             kj::str("this is ", target, ", which is set too"));
    };
    KJ_IF_MAYBE (parent, find(mapping, row.other)) {
      auto& node = stream.edit(*parent->value);
      bool free = node.kind == YamlNode::Kind::kNull || node.kind == YamlNode::Kind::kMapping;
      if (!free || find(node, row.key) != nullptr) return conflict();
      warn(entry.place, below(position, row.key), kj::str("this is read as ", target));
      node.kind = YamlNode::Kind::kMapping;
      node.entries.add(kj::mv(entry));
      return;
    }
    warn(entry.place, below(position, row.key), kj::str("this is read as ", target));
    auto& node = stream.make();
    node.kind = YamlNode::Kind::kMapping;
    node.place = entry.place;
    Entry parent{kj::str(row.other), entry.place, &node, nullptr};
    node.entries.add(kj::mv(entry));
    mapping.entries.add(kj::mv(parent));
  }

  void listOfOne(const Deviation& row, Entry& entry, const Position& position) {
    if (entry.value->kind != YamlNode::Kind::kMapping) return;
    warn(entry.value->place, below(position, row.key),
         kj::str("expected a list; this mapping is read as its only item (begin it with \"- \")"));
    auto& list = stream.make();
    list.kind = YamlNode::Kind::kSequence;
    list.place = entry.value->place;
    list.items.add(entry.value);
    entry.value = &list;
  }

  void adopt(const Deviation& row, YamlNode& mapping, const Position& position) {
    auto& parent = KJ_ASSERT_NONNULL(find(mapping, row.key));
    if (parent.value->kind != YamlNode::Kind::kNull) return;
    auto& node = stream.make();
    node.kind = YamlNode::Kind::kMapping;
    node.place = parent.place;
    parent.value = &node;
    kj::Vector<Entry> kept;
    for (auto& entry : mapping.entries) {
      if (entry.key == row.key || find(stream.edit(*entry.value), row.other) == nullptr) {
        kept.add(kj::mv(entry));
        continue;
      }
      warn(entry.place, below(position, entry.key),
           kj::str("this is read as one of ", row.key, "; indent it further"));
      node.entries.add(kj::mv(entry));
    }
    mapping.entries = kj::mv(kept);
  }

  void rewrite(const Deviation& row, Entry& entry, const Position& position) {
    Position value{&position, row.key, nullptr};
    auto change = [&](const YamlNode& node, const Position& place) {
      if (node.kind != YamlNode::Kind::kScalar) return;
      KJ_IF_MAYBE (meant, row.rewrite(node.text)) {
        if (!row.silent) {
          warn(node.place, place.toString(),
               kj::str("\"", node.text, "\" is read as \"", *meant, "\""));
        }
        stream.edit(node).text = kj::mv(*meant);
      }
    };
    change(*entry.value, value);
    for (size_t i = 0; i < entry.value->items.size(); ++i)
      change(*entry.value->items[i], {&value, nullptr, i});
  }
};

}  // namespace

kj::ArrayPtr<const codec::LaterKey> laterKeys() {
  return kLaterKeys;
}

kj::ArrayPtr<const LaterKind> laterKinds() {
  return kLaterKinds;
}

void correct(YamlStream& stream, const YamlNode& root, kj::StringPtr file, Problems& problems) {
  Corrector corrector(stream, file, problems);
  for (auto& row : kDeviations) corrector.apply(row, row.where, root, {});
}

}  // namespace talos::config
