// A document of a platform: JSON or YAML, parsed by common/yaml within its bounds.
//
// Accessors never throw: a value that is missing, null or of another shape is empty. Texts are
// valid as long as their document.
#pragma once

#include <kj/memory.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/yaml/yaml.h"

namespace talos::platforms {

// More items than a machine has of any kind. Larger by one than the bounds of facts, so that a list
// that is too long exceeds them.
constexpr size_t kMostItems = 257;

class Value {
 public:
  Value() = default;
  explicit Value(const codec::YamlNode& node) : node(&node) {}

  bool exists() const;
  bool isMapping() const;
  Value operator[](kj::StringPtr key) const;
  kj::StringPtr text() const;
  // Like text(), but "[...]" or "{...}" for a list or a mapping, which is not a valid value of any
  // kind.
  kj::StringPtr textOrShape() const;
  // Returns a number, also from a text that is a number; 0 beyond 2^31-1.
  unsigned number() const;
  bool flag() const;
  // Returns at most kMostItems items of a list; a single scalar counts as a list with one item.
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
  // `what` is for the message: "metadata". InvalidArgument if it is not exactly one document.
  Document(kj::StringPtr what, kj::ArrayPtr<const char> text);
  Value root() const { return top; }

 private:
  Problems problems;
  kj::Own<codec::YamlStream> stream;
  Value top;
};

}  // namespace talos::platforms
