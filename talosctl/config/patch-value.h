// The parts of talosctl/config/patch.h: documents as trees that can be changed, the operations of
// patches, and the conversion back to text. Pure.
#pragma once

#include <kj/arena.h>
#include <kj/memory.h>

#include <vector>

#include "common/yaml/yaml.h"
#include "talosctl/config/patch.h"

namespace talos::patch {

using codec::YamlNode;
using Kind = codec::YamlNode::Kind;

struct Member;

// A node that can be changed. Its texts live in the streams from which it was made, or in a Texts.
struct Value {
  Kind kind = Kind::kNull;
  bool plain = false;
  kj::StringPtr text;
  std::vector<Member> members;  // members of a mapping or a sequence

  const YamlNode* origin = nullptr;  // node from which it was read
  bool touched = false;              // the node, or a node below it, has changed since it was read

  size_t size() const;      // number of nodes in it
  size_t bytes() const;     // bytes of their texts and keys
  unsigned height() const;  // number of levels in it
};

struct Member {
  kj::StringPtr key;  // empty in a sequence
  kj::Own<Value> value;
};

using Texts = kj::Arena;

kj::Own<Value> valueOf(const YamlNode& node);
kj::Own<Value> clone(const Value& value);  // the copy has no origin

kj::Maybe<size_t> find(const Value& mapping, kj::StringPtr key);

// Returns true if every reader of YAML sees the same value, for any type of the field.
bool isSame(const Value& a, const Value& b);
// Returns true if the values are equal by RFC 6902, section 4.6: numbers by their value, mappings
// in any order.
bool isEqual(const Value& a, const Value& b);

// Reason why a change cannot be made.
struct Refusal {
  codec::Place place;  // place in the patch
  kj::String path, message, hint;
};

// Limits the nodes and bytes that one patch may create, so that nested copies cannot exhaust the
// memory.
class Budget {
 public:
  void spend(size_t steps);  // throws Refusal

 private:
  size_t left = 20'000'000;
};

// The keys that a generated document may lack: their removal only causes a warning.
struct LeftOutKeys {
  const PatchNames& names;
  Problems& problems;

  bool has(kj::ArrayPtr<const kj::StringPtr> path) const;
  void warn(codec::Place place, kj::String path);
};

// Applies the patch, or throws a Refusal. All operations that can never be valid are reported
// first; then nothing is changed.
bool applyOperations(kj::Own<Value>& document, const YamlNode& patch, Texts& texts, Budget& budget,
                     Problems& problems, const PatchNames& names);

// Strategic merge of one document of a patch; `kind` is that of a document beside the machine
// config, or "". All throw a Refusal. First everything that is marked with `$patch: delete` is
// removed, then the rest of the patch is merged. `leftOut` is for the machine config.
bool deletesDocument(const YamlNode& patch);
void removeMarked(Value& document, const YamlNode& patch, kj::StringPtr kind, Budget& budget,
                  kj::Maybe<LeftOutKeys&> leftOut = nullptr);
void mergeDocument(Value& document, const YamlNode& patch, kj::StringPtr kind, Budget& budget);
// Removes what is marked from a value that was read from a patch and becomes a new document.
// Returns true if something was marked.
bool dropMarked(Value& document, Budget& budget);

// Returns the source with the text of `was` changed to that of `now`. This is a proposal: the
// caller checks that its meaning is `now`.
struct Region {
  kj::ArrayPtr<const char> source;
  size_t begin, end;  // range of the document in the source
};
kj::String splice(const codec::YamlStream& stream, Region region, const Value& was,
                  const Value& now);
// The same, but rewrites the whole document.
kj::String rewrite(const codec::YamlStream& stream, Region region, const Value& was,
                   const Value& now, bool keepText);
// Returns the text of a new document, which was read from `origin` in `stream`.
kj::String newDocument(const codec::YamlStream& stream, const YamlNode& origin,
                       const Value& document, bool keepText);

}  // namespace talos::patch
