// TOML 1.0: reads a document, merges it with another one, and writes the result. Pure.
//
// toml++ reads, so a tree has values that it has understood; numbers keep their base, times their
// nanoseconds. Comments and the order of keys are lost. Any bytes end in a tree of bounded depth,
// or in an error with its place and without text of the document.
//
// Reference: https://toml.io/en/v1.0.0
#pragma once

#include <kj/string.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace talos::toml {

constexpr size_t kMostDepth = 32;         // of tables and lists in each other
constexpr size_t kMostBytes = 64 * 1024;  // of a document

struct Value {
  enum class Kind { kTable, kList, kText, kInteger, kFloat, kBoolean, kTime };

  Kind kind = Kind::kTable;
  std::string text;  // the value as it is written; empty for tables and lists
  std::map<std::string, std::unique_ptr<Value>> fields;  // of a table
  std::vector<std::unique_ptr<Value>> items;             // of a list

  bool isTable() const { return kind == Kind::kTable; }
  // Returns the field of a table; nullptr if it does not exist.
  const Value* find(const std::string& key) const;
};

// Returns the document as a table. InvalidArgument: "line 2, column 5: …".
Value read(kj::ArrayPtr<const char> text);

Value copyOf(const Value& value);

// The rule for a key that both documents set to values of one kind, other than tables and lists.
enum class SameKey { kMustBeEqual, kIsReplaced };

// Merges `from` into `into`: tables key by key; the items of a list are added to those of the
// other. InvalidArgument naming the key if the two differ in kind, or as `rule` says; `into` is
// then merged in part.
void merge(Value& into, const Value& from, SameKey rule);

// Writes a table. A name of a table in brackets has no brackets in it: containerd's reader takes
// those for the end of the name, in quotes too. Tables with such names are written as keys with
// dots.
kj::String write(const Value& table);

}  // namespace talos::toml
