#include "common/yaml/yaml-later-keys.h"

namespace talos::codec {
namespace {

constexpr auto kItem = "[]"_kj;

// Matches "a.*.b[]": a key, any key, a key, an item.
bool fits(kj::ArrayPtr<const char> pattern, const Path& path) {
  if (path.parent == nullptr) return pattern.size() == 0;
  if (path.index != nullptr) {
    if (pattern.size() < kItem.size()) return false;
    auto rest = pattern.size() - kItem.size();
    return pattern.slice(rest, pattern.size()) == kItem.asArray() &&
           fits(pattern.slice(0, rest), *path.parent);
  }
  size_t begin = pattern.size();
  while (begin > 0 && pattern[begin - 1] != '.') --begin;
  auto step = pattern.slice(begin, pattern.size());
  if (step != "*"_kj.asArray() && step != path.key.asArray()) return false;
  return fits(pattern.slice(0, begin == 0 ? 0 : begin - 1), *path.parent);
}

// Returns the key of `row` directly below `above`; "" if it is not below it.
kj::StringPtr childName(const LaterKey& row, const LaterKey& above) {
  if (!row.path.startsWith(above.path)) return "";
  auto rest = row.path.slice(above.path.size());
  if (rest.startsWith(kItem)) rest = rest.slice(kItem.size());
  if (!rest.startsWith(".")) return "";
  auto name = rest.slice(1);
  return name.findFirst('.') == nullptr && name.findFirst('[') == nullptr ? name : ""_kj;
}

bool isUnset(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::kSequence) return value.items.size() == 0;
  return value.kind == YamlNode::Kind::kNull;
}

}  // namespace

bool LaterReader::read(const Entry& entry, const Path& path) {
  KJ_IF_MAYBE (row, find(path)) {
    bool warns = row->treatment == LaterTreatment::kWarning;
    if (!warns || hasOwn(*entry.value, path, *row)) treat(entry, path, *row);
    readBelow(*entry.value, path, *row);
    return true;
  }
  return false;
}

void LaterReader::treat(const Entry& entry, const Path& path, const LaterKey& row) {
  switch (row.treatment) {
    case LaterTreatment::kWarning:
      report(Problem::Severity::kWarning, entry.place, path,
             kj::str("this key is supported from version ", row.since, " on; it has no effect"),
             kj::str(row.hint));
      return;
    case LaterTreatment::kAccepted:
      return;
    case LaterTreatment::kErrorIfTrue:
      if (parseBool(entry.value->text).orDefault(true) == false) return;
      [[fallthrough]];
    case LaterTreatment::kError:
      if (isUnset(*entry.value)) return;
      report(Problem::Severity::kError, entry.place, path, kj::str(row.reason), kj::str(row.hint));
      return;
  }
}

kj::Vector<kj::StringPtr> LaterReader::namesBelow(const Path& path) const {
  kj::Vector<kj::StringPtr> names;
  for (auto& row : rows) {
    KJ_IF_MAYBE (dot, row.path.findLast('.')) {
      auto name = row.path.slice(*dot + 1);
      bool plain = name != "*" && name.findFirst('[') == nullptr;
      if (plain && fits(row.path.slice(0, *dot), path)) names.add(name);
    }
  }
  return names;
}

kj::Maybe<const LaterKey&> LaterReader::find(const Path& path) const {
  for (auto& row : rows) {
    if (fits(row.path, path)) return row;
  }
  return nullptr;
}

bool LaterReader::knowsBelow(const LaterKey& row) const {
  for (auto& other : rows) {
    if (childName(other, row).size() > 0) return true;
  }
  return false;
}

// Returns true if there is a key of the row's own version.
bool LaterReader::hasOwn(const YamlNode& node, const Path& path, const LaterKey& row) const {
  if (node.entries.size() + node.items.size() == 0 || !knowsBelow(row)) return true;
  for (auto& entry : node.entries) {
    Path below{&path, entry.key, nullptr};
    KJ_IF_MAYBE (child, find(below)) {
      if (child->since == row.since && hasOwn(*entry.value, below, *child)) return true;
    }
  }
  for (auto i : kj::indices(node.items)) {
    Path below{&path, nullptr, i};
    if (hasOwn(*node.items[i], below, row)) return true;
  }
  return false;
}

void LaterReader::readBelow(const YamlNode& node, const Path& path, const LaterKey& row) {
  if (!knowsBelow(row)) return;
  for (auto& entry : node.entries) {
    Path below{&path, entry.key, nullptr};
    KJ_IF_MAYBE (child, find(below)) {
      if (child->since != row.since || child->treatment != row.treatment) {
        read(entry, below);
      } else {
        readBelow(*entry.value, below, *child);
      }
    } else {
      refuse(entry, below, row);
    }
  }
  for (auto i : kj::indices(node.items)) {
    Path below{&path, nullptr, i};
    readBelow(*node.items[i], below, row);
  }
}

bool isLaterError(kj::ArrayPtr<const LaterKey> rows, const Problem& problem) {
  kj::Vector<char> pattern(problem.path.size() + 1);
  bool inIndex = false;
  for (char c : problem.path) {
    inIndex = inIndex && c != ']';
    if (!inIndex) pattern.add(c);
    inIndex = inIndex || c == '[';
  }
  pattern.add('\0');
  kj::StringPtr path(pattern.begin(), pattern.size() - 1);
  for (auto& row : rows) {
    if (row.path == path && row.reason == problem.message) return true;
  }
  return false;
}

void LaterReader::refuse(const Entry& entry, const Path& path, const LaterKey& above) {
  kj::Vector<kj::StringPtr> names;
  for (auto& row : rows) {
    auto name = childName(row, above);
    if (name.size() > 0) names.add(name);
  }
  auto hint = kj::str("known keys here: ", kj::strArray(names, ", "));
  KJ_IF_MAYBE (name, closest(entry.key, names)) hint = kj::str("did you mean \"", *name, "\"?");
  report(Problem::Severity::kError, entry.place, path, kj::str("unknown key \"", entry.key, "\""),
         kj::mv(hint));
}

}  // namespace talos::codec
