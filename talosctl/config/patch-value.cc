#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "talosctl/config/patch-value.h"

namespace talos::patch {
namespace {

using codec::ScalarType;

std::string_view view(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

ScalarType typeOf(const Value& value) {
  return value.plain ? codec::scalarType(value.text) : ScalarType::kText;
}

// Returns true if quotes around the text would change its meaning.
bool quotesMatter(kj::StringPtr text) {
  return codec::scalarType(text) != ScalarType::kText || codec::parseBool(text) != nullptr;
}

bool isSameScalar(const Value& a, const Value& b) {
  return a.text == b.text && (a.plain == b.plain || !quotesMatter(a.text));
}

// Returns nullptr if only the text can be compared: not a number, too large, infinite or NaN.
kj::Maybe<double> numberOf(const Value& value) {
  auto type = typeOf(value);
  if (type == ScalarType::kInteger) {
    KJ_IF_MAYBE (integer, codec::parseInteger(value.text)) {
      auto magnitude = static_cast<double>(integer->magnitude);
      return integer->negative ? -magnitude : magnitude;
    }
  }
  if (type != ScalarType::kFloat) return nullptr;
  double number = strtod(value.text.cStr(), nullptr);
  if (!std::isfinite(number) || value.text.findFirst('n') != nullptr ||
      value.text.findFirst('N') != nullptr) {
    return nullptr;
  }
  return number;
}

bool isEqualScalar(const Value& a, const Value& b) {
  if (isSameScalar(a, b)) return true;
  auto x = typeOf(a), y = typeOf(b);
  if (x == ScalarType::kInteger && y == ScalarType::kInteger) {
    auto i = codec::parseInteger(a.text), j = codec::parseInteger(b.text);
    KJ_IF_MAYBE (left, i) {
      KJ_IF_MAYBE (right, j) {
        return left->magnitude == right->magnitude &&
               (left->negative == right->negative || left->magnitude == 0);
      }
    }
    return false;
  }
  KJ_IF_MAYBE (left, numberOf(a)) {
    KJ_IF_MAYBE (right, numberOf(b)) return *left == *right;
    return false;
  }
  if (x != ScalarType::kBool && y != ScalarType::kBool) return false;
  auto p = codec::parseBool(a.text), q = codec::parseBool(b.text);
  return a.plain && b.plain && p != nullptr && p == q;
}

using SameScalar = bool (*)(const Value&, const Value&);

bool compare(const Value& a, const Value& b, SameScalar same) {
  if (a.kind != b.kind || a.members.size() != b.members.size()) return false;
  if (a.kind == Kind::kScalar) return same(a, b);
  if (a.kind == Kind::kSequence) {
    for (size_t i = 0; i < a.members.size(); ++i) {
      if (!compare(*a.members[i].value, *b.members[i].value, same)) return false;
    }
    return true;
  }
  std::map<std::string_view, const Value*> byKey;  // created at the first key in another position
  for (size_t i = 0; i < a.members.size(); ++i) {
    const Value* other = b.members[i].value;
    if (a.members[i].key != b.members[i].key) {
      if (byKey.empty()) {
        for (auto& member : b.members) byKey.emplace(view(member.key), member.value.get());
      }
      auto found = byKey.find(view(a.members[i].key));
      if (found == byKey.end()) return false;
      other = found->second;
    }
    if (!compare(*a.members[i].value, *other, same)) return false;
  }
  return true;
}

}  // namespace

size_t Value::size() const {
  size_t total = 1;
  for (auto& member : members) total += member.value->size();
  return total;
}

size_t Value::bytes() const {
  size_t total = text.size();
  for (auto& member : members) total += member.key.size() + member.value->bytes();
  return total;
}

unsigned Value::height() const {
  unsigned most = 0;
  for (auto& member : members) most = kj::max(most, member.value->height());
  return most + 1;
}

kj::Own<Value> valueOf(const YamlNode& node) {
  auto value = kj::heap<Value>();
  value->kind = node.kind;
  value->plain = node.plain;
  value->text = node.text;
  value->origin = &node;
  value->members.reserve(node.items.size() + node.entries.size());
  for (auto* item : node.items) value->members.push_back({"", valueOf(*item)});
  for (auto& entry : node.entries) value->members.push_back({entry.key, valueOf(*entry.value)});
  return value;
}

kj::Own<Value> clone(const Value& value) {
  auto copy = kj::heap<Value>();
  copy->kind = value.kind;
  copy->plain = value.plain;
  copy->text = value.text;
  copy->touched = true;
  copy->members.reserve(value.members.size());
  for (auto& member : value.members) copy->members.push_back({member.key, clone(*member.value)});
  return copy;
}

kj::Maybe<size_t> find(const Value& mapping, kj::StringPtr key) {
  for (size_t i = 0; i < mapping.members.size(); ++i) {
    if (mapping.members[i].key == key) return i;
  }
  return nullptr;
}

bool isSame(const Value& a, const Value& b) {
  return compare(a, b, isSameScalar);
}

bool isEqual(const Value& a, const Value& b) {
  return compare(a, b, isEqualScalar);
}

bool LeftOutKeys::has(kj::ArrayPtr<const kj::StringPtr> path) const {
  return names.isKey != nullptr && names.isKey(path);
}

void LeftOutKeys::warn(codec::Place place, kj::String path) {
  if (problems.size() >= codec::kMaxProblems) return;
  auto& problem = problems.add();
  problem.severity = Problem::Severity::kWarning;
  problem.file = kj::str(names.patch);
  problem.line = place.line;
  problem.column = place.column;
  problem.path = kj::mv(path);
  problem.message = kj::str("nothing to delete: the generated config does not have it");
}

void Budget::spend(size_t steps) {
  if (steps > left) {
    throw Refusal{{},
                  kj::str(),
                  kj::str("applying the patch takes too much work"),
                  kj::str("use a smaller patch")};
  }
  left -= steps;
}

}  // namespace talos::patch
