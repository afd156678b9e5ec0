#include "machined/platforms/readers/document.h"

#include <algorithm>

#include "common/base/error.h"

namespace talos::platforms {

using Kind = codec::YamlNode::Kind;

bool Value::exists() const {
  if (node == nullptr || node->kind == Kind::kNull) return false;
  bool isNull = node->kind == Kind::kScalar && node->plain &&
                codec::scalarType(node->text) == codec::ScalarType::kNull;
  return !isNull;
}

bool Value::isMapping() const {
  return node != nullptr && node->kind == Kind::kMapping;
}

Value Value::operator[](kj::StringPtr key) const {
  if (!isMapping()) return {};
  for (auto& entry : node->entries) {
    if (entry.key == key && entry.value != nullptr) return Value(*entry.value);
  }
  return {};
}

kj::StringPtr Value::text() const {
  return exists() && node->kind == Kind::kScalar ? kj::StringPtr(node->text) : ""_kj;
}

kj::StringPtr Value::textOrShape() const {
  if (isMapping()) return "{...}"_kj;
  return node != nullptr && node->kind == Kind::kSequence ? "[...]"_kj : text();
}

unsigned Value::number() const {
  KJ_IF_MAYBE (integer, codec::parseInteger(text())) {
    bool fits = !integer->negative && integer->magnitude <= 0x7fffffff;
    return fits ? static_cast<unsigned>(integer->magnitude) : 0;
  }
  return 0;
}

bool Value::flag() const {
  return codec::parseBool(text()).orDefault(false);
}

kj::Vector<Value> Value::items() const {
  kj::Vector<Value> values;
  if (!exists()) return values;
  if (node->kind == Kind::kScalar) values.add(*this);
  for (auto* item : node->items) {
    if (values.size() < kMostItems) values.add(Value(*item));
  }
  return values;
}

kj::Vector<Value::Entry> Value::entries() const {
  kj::Vector<Entry> all;
  if (!isMapping()) return all;
  for (auto& entry : node->entries) {
    if (entry.value != nullptr && all.size() < kMostItems)
      all.add(Entry{entry.key, Value(*entry.value)});
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.key < b.key; });
  return all;
}

Document::Document(kj::StringPtr what, kj::ArrayPtr<const char> text)
    : stream(kj::heap<codec::YamlStream>(text, what, problems)) {
  if (hasErrors(problems)) fail(ErrorKind::kInvalidArgument, problems[0].toString());
  auto roots = stream->documents();
  if (roots.size() > 1) {
    fail(ErrorKind::kInvalidArgument, kj::str(what, " has ", roots.size(), " documents, not one"));
  }
  if (roots.size() == 1) top = Value(*roots[0]);
}

}  // namespace talos::platforms
