// A document of a platform: JSON or YAML, read by common/yaml within its bounds.
//
// Asking never throws: what is absent, null, or of another shape than asked for is empty. A text
// stays as long as its document.
#pragma once

#include <kj/memory.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/yaml/yaml.h"

namespace talos::platforms {

// A machine has fewer of anything. One more than the bounds of facts, so that a list that is too
// long meets them.
constexpr size_t kMostItems = 257;

class Value {
 public:
  Value() = default;
  explicit Value(const codec::YamlNode& node) : node(&node) {}

  bool exists() const;
  bool isMapping() const;
  Value operator[](kj::StringPtr key) const;
  kj::StringPtr text() const;
  // The same; "[...]" or "{...}" for a list or a mapping, which is no valid value of any kind.
  kj::StringPtr textOrShape() const;
  // A number, or a text that is one; 0 beyond 2^31-1.
  unsigned number() const;
  bool flag() const;
  // Of a list, at most kMostItems; a single scalar is a list of it.
  kj::Vector<Value> items() const;
  struct Entry;
  kj::Vector<Entry> entries() const;  // of a mapping, at most kMostItems, sorted by key

 private:
  const codec::YamlNode* node = nullptr;
};
struct Value::Entry {
  kj::StringPtr key;
  Value value;
};

class Document {
 public:
  // `what` is for the message: "metadata". InvalidArgument when it is not one document.
  Document(kj::StringPtr what, kj::ArrayPtr<const char> text);
  Value root() const { return top; }

 private:
  Problems problems;
  kj::Own<codec::YamlStream> stream;
  Value top;
};

}  // namespace talos::platforms
